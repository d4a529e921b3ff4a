"""Times Warpweft's two doors into PyTorch beside eager PyTorch and inductor, in one sitting, in turns, on the same inputs.

    ./x python -k nothing                    # once: an environment below target/python with PyTorch and the package
    target/python/bin/pip install torchvision transformers
    target/python/bin/python bench/torch.py [--only PARTS] [--filter TEXT] [--json FILE]

Parts: `models` (inference), `training` (forward, backward and an SGD step), `cases` (the benchmark's cases through `torch.compile` and on the device),
`overhead` (a call of one tiny op) and `compile` (the first call of ResNet-50 in a new process, with an empty and a filled cache). Each result is compared
with eager's; one that differs is marked, and the exit code is 1. A time is the median of all calls; ratios above 1 say that Warpweft is faster.
"""

import sys

# This file is called like the package that it times: its own folder must not be searched.
sys.path = [place for place in sys.path[1:]]

import argparse  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import os  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

PARTS = ("overhead", "compile", "cases", "models", "training")
ENGINES = ("eager", "inductor", "warpweft")


def image_model(name, size=224, **options):
    import torchvision

    return lambda batch: (getattr(torchvision.models, name)(**options), (torch.randn(batch, 3, size, size),))


def text_model(config, model, length=128, words=1000, **options):
    def make(batch):
        import transformers

        made = getattr(transformers, model)(getattr(transformers, config)(**options))
        return made, (torch.randint(0, words, (batch, length)),)

    return make


def t5(batch):
    import transformers

    config = transformers.T5Config(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, vocab_size=32128, decoder_start_token_id=0, use_cache=False, dropout_rate=0.0)
    words = torch.randint(0, 1000, (batch, 64))
    return Keywords(transformers.T5ForConditionalGeneration(config), ("input_ids", "decoder_input_ids")), (words, words[:, :32])


def whisper(batch):
    import transformers

    config = transformers.WhisperConfig(
        d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536, dropout=0.0, use_cache=False
    )
    words = torch.randint(0, 1000, (batch, 16))
    return Keywords(transformers.WhisperForConditionalGeneration(config), ("input_features", "decoder_input_ids")), (torch.randn(batch, 80, 3000), words)


class Keywords(torch.nn.Module):
    """A model whose arguments have names."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *arguments):
        return self.model(**dict(zip(self.names, arguments)))


# Name, maker of a model and its arguments for a batch, batch of inference, batch of training.
MODELS = {
    "resnet50": (image_model("resnet50"), 1, 4),
    "vit_b_16": (image_model("vit_b_16"), 1, 2),
    "convnext_tiny": (image_model("convnext_tiny"), 1, 2),
    "mobilenet_v3_small": (image_model("mobilenet_v3_small"), 1, 8),
    "bert_base": (text_model("BertConfig", "BertModel", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), 1, 2),
    "minilm": (text_model("BertConfig", "BertModel", num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), 8, 8),
    "gpt2": (text_model("GPT2Config", "GPT2LMHeadModel", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False), 1, 1),
    "llama": (text_model("LlamaConfig", "LlamaForCausalLM", vocab_size=8000, hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4, use_cache=False), 1, 2),
    "t5_small": (t5, 1, 2),
    "whisper_tiny": (whisper, 1, 1),
}


def numbers(*shape):
    return torch.randn(*shape)


def attention(q, k, v):
    return ((q @ k.transpose(-1, -2)) * 0.125).softmax(-1) @ v


# The cases of the benchmark: a function and its inputs.
CASES = {
    "matmul_512": (torch.matmul, lambda: (numbers(512, 512), numbers(512, 512))),
    "matmul_1024": (torch.matmul, lambda: (numbers(1024, 1024), numbers(1024, 1024))),
    "matmul_2048": (torch.matmul, lambda: (numbers(2048, 2048), numbers(2048, 2048))),
    "matvec_4096": (torch.matmul, lambda: (numbers(4096, 4096), numbers(4096))),
    "matmul_t_1024": (lambda a, b: a.T @ b, lambda: (numbers(1024, 1024), numbers(1024, 1024))),
    "batch_matmul": (torch.matmul, lambda: (numbers(32, 128, 64), numbers(32, 64, 128))),
    "mlp_gelu": (lambda x, a, b: F.gelu(x @ a, approximate="tanh") @ b, lambda: (numbers(256, 768), numbers(768, 3072), numbers(3072, 768))),
    "chain_16M": (lambda a, b: (a * 2 + b).relu() * a - b * 0.5, lambda: (numbers(1 << 24), numbers(1 << 24))),
    "exp_16M": (torch.exp, lambda: (numbers(1 << 24),)),
    "sum_64M": (torch.sum, lambda: (numbers(1 << 26),)),
    "rowsum_4096": (lambda a: a.sum(1), lambda: (numbers(4096, 4096),)),
    "colsum_4096": (lambda a: a.sum(0), lambda: (numbers(4096, 4096),)),
    "softmax_4096x1024": (lambda a: a.softmax(1), lambda: (numbers(4096, 1024),)),
    "layernorm_4096x1024": (lambda a: F.layer_norm(a, (a.shape[1],)), lambda: (numbers(4096, 1024),)),
    "transpose_4096": (lambda a: a.t().contiguous(), lambda: (numbers(4096, 4096),)),
    "strided_gather": (lambda a: a[::2].flip(1).contiguous(), lambda: (numbers(4096, 4096),)),
    "conv2d_3x3": (lambda x, w: F.conv2d(x, w, padding=1), lambda: (numbers(8, 64, 56, 56), numbers(64, 64, 3, 3))),
    "attention_8x128x64": (attention, lambda: (numbers(8, 128, 64), numbers(8, 128, 64), numbers(8, 128, 64))),
}


def tensors_in(found):
    """The tensors of a result, in order."""
    if isinstance(found, torch.Tensor):
        return [found]
    found = found.values() if hasattr(found, "values") else found if isinstance(found, (list, tuple)) else []
    return [tensor for value in found for tensor in tensors_in(value)]


def differs(found, expected):
    """What is wrong with a result, or nothing. Long chains of float32 differ by their order of summation."""
    for got, wanted in zip(tensors_in(found), tensors_in(expected), strict=True):
        got, wanted = got.detach().cpu().double(), wanted.detach().cpu().double()
        scale = wanted.abs().max().item() if wanted.numel() else 0.0
        error = (got - wanted).abs().max().item() if wanted.numel() else 0.0
        if not error <= 2e-3 * max(scale, 1e-3):
            return f"differs by {error:.2g} where the largest element is {scale:.2g}"
    return ""


class Clock:
    """Calls several functions in turns, so that what else runs on the machine slows all of them."""

    def __init__(self, seconds, rounds, now=time.perf_counter):
        self.seconds, self.rounds, self.now = seconds, rounds, now

    def medians(self, calls):
        times = {name: [] for name in calls}
        for name, call in calls.items():
            call()
        for _ in range(self.rounds):
            for name, call in calls.items():
                ends = self.now() + self.seconds / self.rounds
                while True:
                    started = self.now()
                    call()
                    times[name].append(self.now() - started)
                    if self.now() >= ends:
                        break
        return {name: statistics.median(found) for name, found in times.items()}


class Report:
    """The lines that are printed, and what goes to the JSON file."""

    def __init__(self, wanted):
        self.wanted, self.rows, self.problems, self.engines = wanted, [], [], []

    def progress(self, text):
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def head(self, title, engines):
        self.progress("")
        self.engines = engines
        print(f"\n{title}\n{'':24}" + "".join(f"{engine:>16}" for engine in engines) + f"{'peer / ours':>14}")

    def row(self, part, name, times, problems):
        """A row of times by engine; `problems` are by engine, too."""
        ours = min(times[engine] for engine in times if engine.startswith("warpweft"))
        peers = {engine: times[engine] for engine in times if not engine.startswith("warpweft")}
        ratio = min(peers.values()) / ours if peers else math.nan
        self.progress("")
        print(f"{name:24}" + "".join(f"{shown(times.get(engine)):>16}" for engine in self.engines) + f"{ratio:>14.2f}", flush=True)
        for engine, problem in problems.items():
            print(f"  {engine}: {problem}")
            self.problems.append(f"{name}, {engine}: {problem}")
        self.rows.append({"part": part, "name": name, "seconds": times, "problems": problems})

    def means(self, part):
        """Geometric means of the peers' times over ours."""
        rows = [row for row in self.rows if row["part"] == part]
        if not rows:
            return
        peers = [engine for engine in self.engines if not engine.startswith("warpweft")]
        for engine in peers:
            for own in (own for own in self.engines if own not in peers):
                both = [row["seconds"] for row in rows if engine in row["seconds"] and own in row["seconds"]]
                if not both:
                    continue
                logarithms = [math.log(seconds[engine] / seconds[own]) for seconds in both]
                print(f"geometric mean of {engine} / {own} over {len(both)}: {math.exp(statistics.fmean(logarithms)):.2f}")


def shown(seconds):
    if seconds is None:
        return "-"
    unit, factor = ("s", 1) if seconds >= 1 else ("ms", 1e3) if seconds >= 1e-3 else ("us", 1e6)
    return f"{seconds * factor:.3g} {unit}"


def compiled(function, engine):
    if engine == "eager":
        return function
    return torch.compile(function, backend=engine)


def measure(report, clock, part, name, calls, expected):
    """Times the calls, after each has been compared with what is expected."""
    working, problems = {}, {}
    for engine, call in calls.items():
        report.progress(f"{name}: {engine} compiles")
        try:
            problem = differs(call(), expected)
            if problem:
                problems[engine] = problem
            working[engine] = call
        except Exception as error:
            problems[engine] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    report.progress(f"{name}: timed")
    if any(engine.startswith("warpweft") for engine in working):
        report.row(part, name, clock.medians(working), problems)
    else:
        print(f"{name:24}not run: {problems}")
        report.problems.append(f"{name}: not run")


def cases(report, clock, engines):
    shown_engines = [*engines, "warpweft device"] if "warpweft" in engines else engines
    report.head("cases: eager, torch.compile, and the device (its times have no copies to and from the CPU)", shown_engines)
    for name, (function, make) in CASES.items():
        if report.wanted not in name:
            continue
        torch._dynamo.reset()
        inputs = make()
        calls = {engine: (lambda call=compiled(function, engine): call(*inputs)) for engine in engines}
        if "warpweft" in engines:
            on_device = [tensor.to("warpweft") for tensor in inputs]
            calls["warpweft device"] = lambda: computed(function(*on_device))
        measure(report, clock, "cases", name, calls, function(*inputs))
    report.means("cases")


def computed(tensor):
    """The same, when it has been computed: the device puts off what nobody asks for."""
    torch.warpweft.synchronize()
    return tensor


def models(report, clock, engines):
    report.head("models, inference", engines)
    for name, (make, batch, _) in MODELS.items():
        if report.wanted not in name:
            continue
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, arguments = make(batch)
        model.eval()
        with torch.no_grad():
            calls = {engine: (lambda call=compiled(model, engine): call(*arguments)) for engine in engines}
            measure(report, clock, "models", f"{name} x{batch}", calls, model(*arguments))
    report.means("models")


def loss_of(found):
    return sum((tensor.float() ** 2).mean() for tensor in tensors_in(found) if tensor.is_floating_point())


def training(report, clock, engines):
    report.head("models, a training step (forward, backward, SGD)", engines)
    for name, (make, _, batch) in MODELS.items():
        if report.wanted not in name:
            continue
        torch._dynamo.reset()
        calls, expected = {}, None
        for engine in engines:
            torch.manual_seed(0)
            model, arguments = make(batch)
            model.train()
            for module in model.modules():
                if isinstance(module, torch.nn.Dropout):
                    module.p = 0.0  # What is drawn differs by engine.
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
            calls[engine] = step_of(compiled(model, engine), optimizer, arguments)
            if expected is None:
                expected = step_of(model, torch.optim.SGD(model.parameters(), lr=0.0), arguments)()
        measure(report, clock, "training", f"{name} x{batch}", calls, expected)
    report.means("training")


def step_of(call, optimizer, arguments):
    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(call(*arguments))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def overhead(report, clock, engines):
    report.head("overhead: a call of x * 2 + 1 over 16 numbers", [*engines, "warpweft.jit"])
    import warpweft

    torch._dynamo.reset()
    x = torch.randn(16)

    def tiny(x):
        return x * 2 + 1

    calls = {engine: (lambda call=compiled(tiny, engine): call(x)) for engine in engines}
    jitted, own = warpweft.jit(lambda x: x * 2 + 1), warpweft.Tensor(x.tolist())
    jitted(own)

    def many(call):
        def run():
            for _ in range(100):
                call()

        return run

    for call in calls.values():
        call()
    found = clock.medians({engine: many(call) for engine, call in (calls | {"warpweft.jit": lambda: jitted(own)}).items()})
    report.row("overhead", "tiny op", {engine: seconds / 100 for engine, seconds in found.items()}, {})


FIRST_CALL = """
import sys, time, torch, torchvision
model, x = torchvision.models.resnet50().eval(), torch.randn(1, 3, 224, 224)
with torch.no_grad():
    model(x)
    call = torch.compile(model, backend=sys.argv[1])
    started = time.perf_counter()
    call(x)
    print(time.perf_counter() - started)
"""


def first_calls(report, engines):
    for title, filled in (("empty caches", False), ("filled caches", True)):
        report.head(f"first call of ResNet-50 in a new process, {title}", [engine for engine in engines if engine != "eager"])
        times, problems = {}, {}
        for engine in (engine for engine in engines if engine != "eager"):
            with tempfile.TemporaryDirectory() as folder:
                places = {"WARPWEFT_CACHE_DIR": f"{folder}/warpweft", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
                for _ in range(2 if filled else 1):
                    report.progress(f"first call: {engine}")
                    ran = subprocess.run([sys.executable, "-c", FIRST_CALL, engine], env=os.environ | places, capture_output=True, text=True)
                if ran.returncode == 0:
                    times[engine] = float(ran.stdout.split()[-1])
                else:
                    problems[engine] = (ran.stderr.strip().splitlines() or ["failed"])[-1]
        if "warpweft" in times:
            report.row("compile", "resnet50", times, problems)
        else:
            report.problems.append(f"first call: {problems}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), metavar="PARTS", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--filter", default="", metavar="TEXT", help="cases and models whose names contain this")
    parser.add_argument("--engines", default=",".join(ENGINES), help="some of %(default)s; warpweft among them")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="threads of each engine [default: %(default)s]")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each engine and row [default: %(default)s]")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each engine [default: %(default)s]")
    parser.add_argument("--processor-time", action="store_true", help="time that the process ran, for a machine that others use, too; with --threads 1")
    parser.add_argument("--json", metavar="FILE", help="write all times to this file")
    arguments = parser.parse_args()
    parts, engines = arguments.only.split(","), arguments.engines.split(",")
    if unknown := [name for name in parts if name not in PARTS] + [name for name in engines if name not in ENGINES]:
        parser.error(f"unknown: {', '.join(unknown)}")
    if "warpweft" not in engines:
        parser.error("warpweft must be among the engines")
    os.environ.setdefault("WARPWEFT_THREADS", str(arguments.threads))
    torch.set_num_threads(arguments.threads)
    import warpweft.torch  # noqa: F401  The device, and the backend of torch.compile.

    now = time.process_time if arguments.processor_time else time.perf_counter
    report, clock = Report(arguments.filter), Clock(arguments.seconds, arguments.rounds, now)
    kind = "processor time" if arguments.processor_time else "time"
    print(f"PyTorch {torch.__version__}, threads of each: {arguments.threads}, medians of {kind}")
    runs = {"cases": cases, "models": models, "training": training, "overhead": overhead}
    for part in PARTS:
        if part in parts:
            first_calls(report, engines) if part == "compile" else runs[part](report, clock, engines)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"torch": torch.__version__, "threads": arguments.threads, "rows": report.rows}, file, indent=1)
    if report.problems:
        print(f"\n{len(report.problems)} problems:", *report.problems, sep="\n  ")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
