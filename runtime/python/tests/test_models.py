"""Known models of small sizes with random weights: a forward pass and a training step through `torch.compile`, compared with eager PyTorch, with
no op left to PyTorch. Models come from torchvision and transformers, where these are installed.
"""

import copy

import pytest

torch = pytest.importorskip("torch")

from warpweft.torch import counters  # noqa: E402


def resnet():
    models = pytest.importorskip("torchvision.models")
    return models.ResNet(models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=7), (torch.randn(2, 3, 33, 33),)


def vision_transformer():
    models = pytest.importorskip("torchvision.models")
    return models.VisionTransformer(16, 8, 2, 2, 24, 48, num_classes=5), (torch.randn(2, 3, 16, 16),)


def mobilenet():
    models = pytest.importorskip("torchvision.models")
    model = models.mobilenet_v3_small(num_classes=5, dropout=0.0)
    return model, (torch.randn(4, 3, 32, 32),)


def convnext():
    models = pytest.importorskip("torchvision.models")
    block = models.convnext.CNBlockConfig
    return models.ConvNeXt([block(8, 16, 1), block(16, None, 1)], num_classes=5), (torch.randn(2, 3, 32, 32),)


def tokens(*shape):
    return torch.randint(0, 50, shape)


def bert():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, max_position_embeddings=16,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config), (tokens(2, 9),)


def gpt2():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False
    )
    return transformers.GPT2LMHeadModel(config), (tokens(2, 9),)


def llama():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=16, use_cache=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config), (tokens(2, 9),)


class Keywords(torch.nn.Module):
    """A model whose arguments have names."""

    def __init__(self, model, *names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *arguments):
        return self.model(**dict(zip(self.names, arguments)))


def t5():
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(
        vocab_size=50, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0, decoder_start_token_id=0, use_cache=False
    )
    return Keywords(transformers.T5ForConditionalGeneration(config), "input_ids", "decoder_input_ids"), (tokens(2, 9), tokens(2, 6))


def whisper():
    transformers = pytest.importorskip("transformers")
    config = transformers.WhisperConfig(
        vocab_size=50, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
        decoder_ffn_dim=48, num_mel_bins=8, max_source_positions=20, max_target_positions=16, dropout=0.0, use_cache=False, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    model = Keywords(transformers.WhisperForConditionalGeneration(config), "input_features", "decoder_input_ids")
    return model, (torch.randn(2, 8, 40), tokens(2, 6))


def result_of(found):
    return found if isinstance(found, torch.Tensor) else found.logits


@pytest.mark.parametrize("make", [resnet, vision_transformer, mobilenet, convnext, bert, gpt2, llama, t5, whisper], ids=lambda make: make.__name__)
def test_a_model_is_eagers(make):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, arguments = make()
    model.train()
    eager = copy.deepcopy(model)
    compiled = torch.compile(model, backend="warpweft")
    counters(reset=True)
    losses = []
    for one, call in ((eager, eager), (model, compiled)):
        optimizer = torch.optim.SGD(one.parameters(), lr=0.01)
        found = result_of(call(*arguments))
        loss = (found.float() ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append((found.detach(), loss.detach()))
    for found, expected in zip(losses[1], losses[0]):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    for (name, found), expected in zip(model.named_parameters(), eager.parameters()):
        if expected.grad is not None:
            torch.testing.assert_close(found.grad, expected.grad, rtol=5e-3, atol=5e-4, msg=lambda text, name=name: f"{name}: {text}")
    assert counters()["fallback_ops"] == {} and counters()["graphs"] >= 2
