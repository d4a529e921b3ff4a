"""`torch.compile(model, backend="warpweft")`."""
