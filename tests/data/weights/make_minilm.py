"""Writes a model of the kind of all-MiniLM-L6-v2 into a folder, and with small sizes what PyTorch makes of sentences with it: minilm/.

    python3 -m venv venv && venv/bin/pip install torch numpy safetensors tokenizers
    venv/bin/python tests/data/weights/make_minilm.py                 # tests/data/weights/minilm
    venv/bin/python tests/data/weights/make_minilm.py --full FOLDER   # all sizes of the real one, random weights, the same tokenizer

The real weights are at https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2. Names and shapes are those; numbers are random from a fixed seed.
The forward pass below is written from the model's definition: BERT (Devlin et al., 2018) with masked mean pooling and normalisation.
"""

import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

SENTENCES = ["The quick brown fox jumps over the lazy dog.", "A compiler turns a tensor program into machine code.",
             "Handwritten digits are classified by a small network.", "Stripes nest into setts!", "dog", "unseen zebra words"]


def tokenizer():
    words = sorted({word for sentence in SENTENCES[:4] for word in sentence.lower().replace(".", "").replace("!", "").split()})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", "!", "##s", "##ed", "word", *words]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return made, len(pieces)


def weights(config):
    torch.manual_seed(5)
    d, inner, random = config["hidden_size"], config["intermediate_size"], lambda *shape: torch.randn(*shape) * 0.3
    made = {"embeddings.word_embeddings.weight": random(config["vocab_size"], d),
            "embeddings.position_embeddings.weight": random(config["max_position_embeddings"], d),
            "embeddings.token_type_embeddings.weight": random(config["type_vocab_size"], d)}
    norms = ["embeddings"]
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        norms += [f"{name}.attention.output", f"{name}.output"]
        sizes = {"attention.self.query": (d, d), "attention.self.key": (d, d), "attention.self.value": (d, d),
                 "attention.output.dense": (d, d), "intermediate.dense": (inner, d), "output.dense": (d, inner)}
        for part, (rows, columns) in sizes.items():
            made[f"{name}.{part}.weight"] = random(rows, columns) / (0.3 * columns**0.5)
            made[f"{name}.{part}.bias"] = random(rows)
    for name in norms:
        made[f"{name}.LayerNorm.weight"], made[f"{name}.LayerNorm.bias"] = 1 + random(d), random(d)
    # What the real file holds beside these.
    made["pooler.dense.weight"], made["pooler.dense.bias"] = random(d, d), random(d)
    made["embeddings.position_ids"] = torch.arange(config["max_position_embeddings"]).reshape(1, -1)
    return made


def forward(config, w, ids, mask):
    d, heads, eps = config["hidden_size"], config["num_attention_heads"], config["layer_norm_eps"]
    norm = lambda x, name: F.layer_norm(x, (d,), w[f"{name}.LayerNorm.weight"], w[f"{name}.LayerNorm.bias"], eps)
    linear = lambda x, name: F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])
    e = "embeddings"
    x = w[f"{e}.word_embeddings.weight"][ids] + w[f"{e}.position_embeddings.weight"][: ids.shape[1]]
    x = norm(x + w[f"{e}.token_type_embeddings.weight"][0], e)
    seen = mask[:, None, None, :].bool()
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        split = lambda part: linear(x, f"{name}.attention.self.{part}").unflatten(2, (heads, -1)).transpose(1, 2)
        attended = F.scaled_dot_product_attention(split("query"), split("key"), split("value"), attn_mask=seen)
        attended = attended.transpose(1, 2).flatten(2)
        x = norm(x + linear(attended, f"{name}.attention.output.dense"), f"{name}.attention.output")
        x = norm(x + linear(F.gelu(linear(x, f"{name}.intermediate.dense")), f"{name}.output.dense"), f"{name}.output")
    mask = mask[:, :, None]
    return F.normalize((x * mask).sum(1) / mask.sum(1), dim=1)


def main():
    full = len(sys.argv) == 3 and sys.argv[1] == "--full"
    folder = Path(sys.argv[2]) if full else Path(__file__).parent / "minilm"
    folder.mkdir(parents=True, exist_ok=True)
    text, pieces = tokenizer()
    config = {"num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 40, "vocab_size": pieces,
              "max_position_embeddings": 40, "type_vocab_size": 2, "layer_norm_eps": 1e-12}
    if full:
        config |= {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536,
                   "vocab_size": 30522, "max_position_embeddings": 512}
    made = weights(config)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    text.save(str(folder / "tokenizer.json"))
    save_file(made, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    text.enable_padding()
    encoded = text.encode_batch(SENTENCES)
    ids, mask = torch.tensor([one.ids for one in encoded]), torch.tensor([one.attention_mask for one in encoded])
    double = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in made.items()}
    embeddings = forward(config, double, ids, mask.double())
    rows = [[round(value, 7) for value in row] for row in embeddings.tolist()]
    expected = {"source": f"PyTorch {torch.__version__} in float64", "sentences": SENTENCES, "tokens": [one.ids for one in encoded],
                "embeddings": rows}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


main()
