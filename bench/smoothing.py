"""Cost of collecting evidence beside the bare forward passes it needs, and of certifying from it."""

import math
import time
from collections.abc import Iterator

import numpy as np
import torch

from bench.harness import Figure, fresh_level, in_ms, medians
from certcal.certificates import confidence_bounds_at
from certcal.models import Noise, build_model, to_grid
from certcal.models.philox import philox_words
from certcal.smoothing import Evidence, EvidenceHeader, collect_evidence
from certcal.smoothing.evidence import threshold_grid

SIGMA, N0 = 0.25, 100


def figures() -> Iterator[Figure]:
    """On one thread: a second one spins while the first works alone, and process time counts that as work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield from collecting()
    yield from rounding()
    yield from certifying()
    torch.set_num_threads(threads)


def collecting() -> Iterator[Figure]:
    """LeNet on 28×28 images, on the CPU: 8 inputs, 100 + 5000 draws each."""
    torch.manual_seed(0)
    model = build_model("lenet", classes=10, channels=1, size=28).eval()
    inputs, labels, n, chunk = torch.rand(8, 1, 28, 28), torch.arange(8), 5000, 250
    batch, first = torch.rand(chunk, 1, 28, 28), torch.rand(N0, 1, 28, 28)

    def bare():
        with torch.inference_mode():
            for _ in inputs:
                model(first)
                for _ in range(n // chunk):
                    model(batch)

    def ours():
        collect_evidence(model, (inputs, labels), sigma=SIGMA, n=n, n0=N0, chunk=chunk, progress=False)

    calls = {"collect": ours, "forward": bare, "plain loop": lambda: plain_loop(model, inputs, n)}
    times = medians(calls, repeats=5, clock=time.process_time)
    yield Figure("collecting evidence over its bare forward passes", times["collect"] / times["forward"], "×", 1.15)
    name = "plain loop, one input at a time, over collecting evidence"
    yield Figure(name, times["plain loop"] / times["collect"], "×", 1.0, at_least=True, note=in_ms(times))


def rounding() -> Iterator[Figure]:
    """What noise of a known law on the grid adds to LeNet's pass over a batch of 28×28 images, where it shows most.

    Beside float32 normals by Box and Muller of the same generator, addressed alike, which tell the input by their low
    bits; and beside torch's, which have no addresses.
    """
    model = build_model("lenet", classes=10, channels=1, size=28).eval()
    noise, inputs, batch = Noise(0, 1, SIGMA), torch.rand(1, 1, 28, 28), torch.empty(250, 1, 28, 28)
    runs, rows = torch.tensor([[0], [0], [0]]), batch.view(250, -1)
    on_grid = to_grid(inputs, noise.step)

    def rounded():
        noise.add(on_grid, batch, runs)

    def floats():
        words = philox_words(0, 1, 0, 0, 250, 392).view(250, -1)
        radius = words[:, :392].float().mul_(2**-32).add_(0.5).clamp_(1e-10).log_().mul_(-2).sqrt_().mul_(SIGMA)
        angle = words[:, 392:784].float().mul_(2 * math.pi * 2**-32)
        torch.mul(radius, angle.cos(), out=rows[:, :392])
        torch.mul(radius, angle.sin_(), out=rows[:, 392:])
        batch.add_(inputs)

    def plain():
        batch.normal_(0.0, SIGMA).add_(inputs)

    # Each after a pass of the model, as in a run: the caches then hold other things.
    calls = {}
    for name, draw in {"on the grid": rounded, "floats": floats, "torch": plain}.items():
        calls |= {f"forward before {name}": lambda: model(batch), name: draw}
    with torch.inference_mode():
        times = medians(calls, repeats=101, clock=time.process_time)
    forward = min(own for name, own in times.items() if name.startswith("forward"))
    times = {name: own for name, own in times.items() if not name.startswith("forward")} | {"forward": forward}
    ratios = {other: (times["on the grid"] + forward) / (times[other] + forward) for other in ("floats", "torch")}
    name = "evidence under noise on the grid over"
    yield Figure(f"{name} floats of the same generator", ratios["floats"], "×", 1.02, note=in_ms(times))
    yield Figure(f"{name} torch's normals", ratios["torch"], "×", 1.05)


def plain_loop(model, inputs, n, batch=1000):
    """CERTIFY of Cohen et al. as its pseudo-code reads, keeping the scores that the CDF certificate needs."""
    results = []
    with torch.no_grad():
        for x in inputs:
            noise = torch.randn(N0, *x.shape) * SIGMA
            selected = model(x + noise).argmax(dim=1).bincount(minlength=10).argmax()
            votes, scores = np.zeros(10, dtype=int), []
            for _ in range(n // batch):
                noise = torch.randn(batch, *x.shape) * SIGMA
                probs = model(x.repeat(batch, 1, 1, 1) + noise).softmax(dim=1)
                votes += np.bincount(probs.argmax(dim=1).numpy(), minlength=10)
                scores.append(probs[:, selected].numpy())
            results.append((votes, np.sort(np.concatenate(scores))))
    return results


def certifying() -> Iterator[Figure]:
    """10 000 inputs with 100 000 draws each, 13 radii, default bounds."""
    evidence = synthetic_evidence(10_000, 100_000)
    radii = [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0]
    calls = {"certify": lambda: confidence_bounds_at(evidence, radii=radii, alpha=fresh_level())}
    times = medians(calls, repeats=3, clock=time.process_time)
    yield Figure("certificates, 10 000 inputs × 13 radii", times["certify"], "s", 5)


def synthetic_evidence(inputs: int, draws: int) -> Evidence:
    """Evidence of scores that are Φ of normals, cell by cell of the histogram."""
    from scipy.special import ndtr, ndtri

    rng = np.random.default_rng(0)
    header = EvidenceHeader("synthetic", SIGMA, 0, 10, N0, 250, "none", stages=(draws,))
    grid = threshold_grid()
    means, spreads = rng.normal(1.2, 1.0, inputs), rng.uniform(0.3, 1.0, inputs)
    with np.errstate(divide="ignore"):
        cdf = ndtr((ndtri(grid) - means[:, None]) / spreads[:, None])
    histogram = np.stack([rng.multinomial(draws, np.diff(row)) for row in cdf])
    middle = (grid[1:] + grid[:-1]) / 2
    won = histogram[:, 128:].sum(axis=1)
    votes = np.zeros((inputs, 10), dtype=np.int64)
    votes[:, 0], votes[:, 1] = won, draws - won
    zeros = np.zeros(inputs, dtype=np.int64)
    return Evidence(
        header, np.arange(inputs), zeros, zeros, zeros, np.full(inputs, draws), votes,
        histogram @ middle, histogram @ np.square(middle), histogram,
    )  # fmt: skip


def gpu_figures() -> Iterator[Figure]:
    """bf16 on a GPU: draws per second, beside the compiled forward pass alone."""
    import torchvision

    torch.manual_seed(0)
    yield from noise_on_gpu()
    yield from with_defaults("four-layer CNN at 3×32×32", four_layers(), 3, 32, limit=15)
    yield from with_defaults("LeNet at 28×28", build_model("lenet", classes=10, channels=1, size=28), 1, 28, limit=12)
    resnet110 = build_model("resnet110", classes=10, channels=3, size=32, normalize=([0.49] * 3, [0.25] * 3))
    yield from on_gpu("ResNet-110 at 32×32", resnet110, 32, batch=8000, inputs=16, floor=120_000)
    resnet50 = torch.nn.Sequential(torchvision.models.resnet50())
    yield from on_gpu("ResNet-50 at 224×224", resnet50, 224, batch=1000, inputs=4, floor=30_000)


def four_layers() -> torch.nn.Module:
    """Three convolutions and a linear layer."""
    widths = [(3, 32, 1), (32, 32, 2), (32, 64, 2)]
    layers = [part for a, b, stride in widths for part in (torch.nn.Conv2d(a, b, 3, stride, 1), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(64 * 8 * 8, 10))


def noise_on_gpu() -> Iterator[Figure]:
    """Noise of a known law on the grid beside torch's normals, each added to one image and in bfloat16 at the end."""
    images = torch.rand(1, 3, 32, 32, device="cuda")
    noise, batch = Noise(0, 1, SIGMA), torch.empty(32_000, 3, 32, 32, device="cuda", dtype=torch.bfloat16)
    source, runs = to_grid(images, noise.step), torch.tensor([[0], [0], [0]], device="cuda")

    def on_the_grid():
        for _ in range(10):
            noise.add(source, batch, runs)
        torch.cuda.synchronize()

    def plain():
        for _ in range(10):
            batch.copy_(torch.randn(batch.shape, device="cuda").mul_(SIGMA).add_(images))
        torch.cuda.synchronize()

    times = medians({"on the grid": on_the_grid, "torch's normals": plain}, repeats=9)
    ratio = times["on the grid"] / times["torch's normals"]
    yield Figure("noise on the grid over torch's normals at 3×32×32", ratio, "×", 1.0, note=in_ms(times))


def with_defaults(name, model, channels, size, *, limit, inputs=500, n=100_000) -> Iterator[Figure]:
    """Evidence with default options but the precision, beside the compiled forward at its best batch size."""
    model = model.eval().cuda().to(memory_format=torch.channels_last)
    data = torch.rand(inputs, channels, size, size), torch.zeros(inputs, dtype=torch.long)
    torch.backends.cudnn.benchmark = True
    forwards = {}
    for batch in (4_000, 16_000, 64_000):
        torch.compiler.reset()
        compiled = torch.compile(model, dynamic=False)
        images = torch.rand(batch, channels, size, size, device="cuda").to(memory_format=torch.channels_last)

        def forward(compiled=compiled, images=images):
            with torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
                for _ in range(10):
                    compiled(images)
            torch.cuda.synchronize()

        forwards[batch] = 10 * batch / medians({"forward": forward}, repeats=5)["forward"]

    def collect():
        collect_evidence(model, data, sigma=SIGMA, n=n, n0=N0, precision="bfloat16", device="cuda", progress=False)
        torch.cuda.synchronize()

    seconds = medians({"collect": collect}, repeats=3)["collect"]  # the call before them compiles
    rate = inputs * (n + N0) / seconds
    best = max(forwards, key=forwards.get)
    note = f"{rate / 1e6:.2f} M draws/s; compiled forward {forwards[best] / 1e6:.2f} M/s in batches of {best}"
    ratio = rate / forwards[best]
    yield Figure(f"{name}: evidence over the compiled forward", ratio, "×", 0.7, at_least=True, note=note)
    yield Figure(f"{name}: 500 inputs, 100 000 draws each", seconds, "s", limit)


def on_gpu(name, model, size, *, batch, inputs, floor) -> Iterator[Figure]:
    model = model.eval().cuda().to(memory_format=torch.channels_last)
    data = torch.rand(inputs, 3, size, size), torch.zeros(inputs, dtype=torch.long)
    images = torch.rand(batch, 3, size, size, device="cuda").to(memory_format=torch.channels_last)
    compiled = torch.compile(model, dynamic=False)
    passes, n = 12, 100_000

    torch.backends.cudnn.benchmark = True  # as collect_evidence does

    def forward():
        with torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
            for _ in range(passes):
                compiled(images)
        torch.cuda.synchronize()

    def collect(**options):
        collect_evidence(
            model,
            data,
            sigma=SIGMA,
            n=n,
            n0=N0,
            chunk=250,
            precision="bfloat16",
            batch_size=batch,
            progress=False,
            **options,
        )
        torch.cuda.synchronize()

    start = time.perf_counter()
    calls = {"forward": forward, "fused": lambda: collect(fuse=True), "compiled": lambda: collect(compile=True)}
    times = medians(calls, repeats=3)
    total = time.perf_counter() - start
    draws = {"forward": passes * batch, "fused": inputs * (n + N0), "compiled": inputs * (n + N0)}
    rate = {key: draws[key] / seconds for key, seconds in times.items()}
    note = ", ".join(f"{key} {value:,.0f}/s" for key, value in rate.items()) + f"; {total:.0f} s in all"
    yield Figure(f"{name}: evidence, draws per second", rate["fused"], "/s", floor, at_least=True, note=note)
    yield Figure(
        f"{name}: evidence (compiled) over the compiled forward", rate["forward"] / rate["compiled"], "×", 1.05
    )
    yield Figure(f"{name}: evidence (fused) over the compiled forward", rate["forward"] / rate["fused"], "×", 1.05)
