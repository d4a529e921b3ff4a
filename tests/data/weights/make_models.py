"""Writes small models into folders beside this file, and what other implementations make of them: decoder/, whisper/, resnet.json and
precision.json.

    python3 -m venv venv && venv/bin/pip install torch numpy safetensors tokenizers transformers gguf
    venv/bin/python tests/data/weights/make_models.py

Weights are random from a fixed seed. Logits of the decoder and states of the audio encoder are those of the `transformers` package in float64, the GGUF files
are written and quantised by the package `gguf`, and the residual network is PyTorch's own layers.
"""

import json
import math
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, WhisperConfig, WhisperFeatureExtractor
from transformers.models.whisper.modeling_whisper import WhisperEncoder

HERE = Path(__file__).parent
rounded = lambda tensor: [round(value, 7) for value in tensor.double().flatten().tolist()]
MERGES = [("t", "h"), ("th", "e"), ("i", "n"), ("Ġ", "the"), ("a", "n"), ("an", "d"), ("Ġ", "and"), ("o", "n"), ("e", "r"), ("in", "g")]


def byte_level():
    """A tokenizer over bytes with a few merges, the kind of GPT-2's and Llama 3's."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = ["<s>", "</s>", *letters, *("".join(pair) for pair in MERGES)]
    made = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, MERGES))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<s>", "</s>"])
    return made, pieces


def random_weights(model, seed):
    """All parameters, by name: norms near 1, the others of the deviation that keeps sums at 1."""
    torch.manual_seed(seed)
    for name, tensor in model.state_dict().items():
        if tensor.dim() > 1:
            fan = tensor[0].numel()
            tensor.copy_(torch.randn_like(tensor) / math.sqrt(fan) * (4 if "embed" in name else 1))
        elif name.endswith("weight"):
            tensor.copy_(1 + 0.2 * torch.randn_like(tensor))
        else:
            tensor.copy_(0.2 * torch.randn_like(tensor))


def decoder():
    folder = HERE / "decoder"
    folder.mkdir(exist_ok=True)
    text, pieces = byte_level()
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
    sizes = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64,
             "vocab_size": len(pieces), "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
             "rope_scaling": scaling, "tie_word_embeddings": False, "model_type": "llama", "bos_token_id": 0, "eos_token_id": 1}
    model = LlamaForCausalLM(LlamaConfig(**sizes, attn_implementation="eager")).eval()
    with torch.no_grad():
        random_weights(model, 11)
    prompt = "the thing on the other and then"
    tokens = [0] + text.encode(prompt).ids + list(range(3, 40))
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        logits = model.double()(torch.tensor([tokens])).logits[0]
    (folder / "config.json").write_text(json.dumps(sizes, indent=1) + "\n")
    text.save(str(folder / "tokenizer.json"))
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    expected = {"source": f"transformers {transformers.__version__}, PyTorch {torch.__version__} in float64", "prompt": prompt, "tokens": tokens,
                "ids": text.encode(prompt).ids, "rows": [0, 5, len(tokens) - 1], "logits": [rounded(logits[row]) for row in (0, 5, len(tokens) - 1)],
                "divisors": [1 / value for value in (model.model.rotary_emb.inv_freq / 10000.0 ** (-torch.arange(0, 8, 2) / 8)).double().tolist()]}
    quantised = {}
    for kind in (gguf.GGMLQuantizationType.Q8_0,):
        values = write_gguf(folder / f"{kind.name}.gguf", sizes, state, pieces, expected["divisors"], kind)
        with torch.no_grad():
            model.load_state_dict({name: tensor.double() for name, tensor in values.items()})
            quantised[kind.name] = rounded(model(torch.tensor([tokens])).logits[0][-1])
    expected["gguf"] = quantised
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


def write_gguf(path, sizes, state, pieces, divisors, kind):
    """A file as llama.cpp's converter makes it; gives the weights that it holds, in the order of PyTorch."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(sizes["num_hidden_layers"])
    writer.add_embedding_length(sizes["hidden_size"])
    writer.add_feed_forward_length(sizes["intermediate_size"])
    writer.add_head_count(sizes["num_attention_heads"])
    writer.add_head_count_kv(sizes["num_key_value_heads"])
    writer.add_context_length(sizes["max_position_embeddings"])
    writer.add_layer_norm_rms_eps(sizes["rms_norm_eps"])
    writer.add_rope_freq_base(sizes["rope_theta"])
    writer.add_rope_dimension_count(sizes["hidden_size"] // sizes["num_attention_heads"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(pieces)
    writer.add_token_types([gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL] * (len(pieces) - 2))
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, sizes["num_hidden_layers"])
    held = {}
    for name, tensor in state.items():
        array = tensor.numpy()
        heads = {"q_proj": sizes["num_attention_heads"], "k_proj": sizes["num_key_value_heads"]}.get(name.split(".")[-2])
        if heads:  # llama.cpp turns neighbours
            array = array.reshape(heads, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        own = gguf.GGMLQuantizationType.F32 if array.ndim == 1 else kind
        packed = gguf.quants.quantize(np.ascontiguousarray(array), own)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), packed, raw_dtype=own)
        array = gguf.quants.dequantize(packed, own).reshape(array.shape)
        if heads:
            array = array.reshape(heads, -1, 2, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        held[name] = torch.from_numpy(array.copy())
    writer.add_tensor("rope_freqs.weight", np.array(divisors, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


def whisper():
    folder = HERE / "whisper"
    folder.mkdir(exist_ok=True)
    sizes = {"num_mel_bins": 20, "d_model": 24, "encoder_layers": 2, "encoder_attention_heads": 3, "encoder_ffn_dim": 40, "max_source_positions": 50}
    model = WhisperEncoder(WhisperConfig(**sizes, attn_implementation="eager")).eval()
    with torch.no_grad():
        sines = model.embed_positions.weight.clone()
        random_weights(model, 12)
        model.embed_positions.weight.copy_(sines)
    state = {f"model.encoder.{name}": tensor.clone() for name, tensor in model.state_dict().items()}
    # One second: two tones that grow, and a click.
    time = np.arange(16000) / 16000
    sound = (0.4 * time * np.sin(2 * np.pi * 440 * time) + 0.1 * np.sin(2 * np.pi * 3000 * time * time)).astype(np.float32)
    sound[9000] = 0.9
    front = WhisperFeatureExtractor(feature_size=20, chunk_length=1)
    features = front(sound, sampling_rate=16000, return_tensors="np").input_features[0]
    with torch.no_grad():
        states = model.double()(torch.from_numpy(features)[None].double()).last_hidden_state[0]
    (folder / "config.json").write_text(json.dumps(sizes, indent=1) + "\n")
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    expected = {"source": f"transformers {transformers.__version__}, PyTorch {torch.__version__} in float64",
                "features": [rounded(torch.from_numpy(features[band])) for band in (0, 7, 19)], "bands": [0, 7, 19],
                "states": [rounded(states[row]) for row in (0, 20, 49)], "rows": [0, 20, 49]}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


class Block(torch.nn.Module):
    """torchvision's BasicBlock."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(outputs)
        self.conv2 = torch.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = torch.nn.Sequential(torch.nn.Conv2d(inputs, outputs, 1, stride, bias=False), torch.nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(torch.nn.Module):
    def __init__(self, channels, widths, blocks, classes):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, widths[0], 3, 1, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(widths[0])
        before = widths[0]
        for number, width in enumerate(widths):
            strides = [1 if number == 0 else 2] + [1] * (blocks - 1)
            layers = [Block(before if at == 0 else width, width, stride) for at, stride in enumerate(strides)]
            setattr(self, f"layer{number + 1}", torch.nn.Sequential(*layers))
            before = width
        self.stages = len(widths)
        self.fc = torch.nn.Linear(before, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        for number in range(self.stages):
            x = getattr(self, f"layer{number + 1}")(x)
        return self.fc(x.mean((2, 3)))


def resnet():
    """One step of training by gradient descent, and the outcome on the images after it."""
    torch.manual_seed(13)
    network = ResNet(1, [4, 6], 2, 5).train()
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if "running_var" in name:
                tensor.copy_(0.5 + torch.rand_like(tensor))
            elif "num_batches" not in name:
                tensor.copy_(torch.randn_like(tensor) * (0.3 if tensor.dim() > 1 else 0.1) + (1 if name.endswith(("bn1.weight", "bn2.weight", "1.weight")) and tensor.dim() == 1 else 0))
    listed = lambda tensor: {"shape": list(tensor.shape), "elements": rounded(tensor)}
    state = {name: listed(tensor) for name, tensor in network.state_dict().items()}
    images, targets = torch.randn(6, 1, 8, 8), torch.tensor([0, 3, 1, 4, 2, 2])
    made = {"source": f"PyTorch {torch.__version__}", "state": state, "images": listed(images), "targets": targets.tolist()}
    network.double()
    images = images.double()
    network.eval()
    made["before"] = rounded(network(images))
    network.train()
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    loss = torch.nn.functional.cross_entropy(network(images), targets)
    loss.backward()
    optimizer.step()
    network.eval()
    made |= {"loss": loss.item(), "after": rounded(network(images)), "running_mean": rounded(network.layer2[0].bn1.running_mean)}
    (HERE / "resnet.json").write_text(json.dumps(made) + "\n")


def precision():
    """Steps of training with half floats and a scaled loss; what comes in at the third is too large for them, so that this step is left out."""
    torch.manual_seed(14)
    network = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 3))
    listed = lambda tensor: {"shape": list(tensor.shape), "elements": rounded(tensor)}
    made = {"source": f"PyTorch {torch.__version__}", "state": {name: listed(tensor) for name, tensor in network.state_dict().items()}, "steps": []}
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    for step in range(6):
        inputs, targets = torch.randn(8, 6) * (1e6 if step == 2 else 1), torch.randint(0, 3, (8,))
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(network(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        made["steps"].append({"inputs": listed(inputs), "targets": targets.tolist(), "loss": None if not loss.isfinite() else loss.item(),
                              "factor": scaler.get_scale(), "weight": rounded(network[0].weight)})
    (HERE / "precision.json").write_text(json.dumps(made) + "\n")


decoder()
whisper()
resnet()
precision()
