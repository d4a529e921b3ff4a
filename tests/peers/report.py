"""What was timed, as a table in Markdown and as a plot in SVG."""

import math

NAMES = {"numpy": "numpy", "torch": "PyTorch", "torch_compile": "torch.compile", "jax": "XLA"}


def duration(seconds):
    """A time with a unit that suits it, three digits."""
    for limit, unit, scale in [(1e-3, "us", 1e6), (1.0, "ms", 1e3)]:
        if seconds < limit:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def best_peer(row):
    """The library with the least time, or none."""
    peers = {name: seconds for name, seconds in row["seconds"].items() if name != "warpweft"}
    return min(peers, key=peers.get) if peers else None


def ratio(row):
    """The best peer's time over ours: above 1, Warpweft is faster."""
    best = best_peer(row)
    return row["seconds"][best] / row["seconds"]["warpweft"] if best else None


def of_ceiling(row, ceilings):
    """How much of the machine's least time for these operations and bytes the case's time is, from 0 to 1; none where neither is known."""
    least = max(row["flops"] / ceilings["fma_flops_per_s"], row["bytes"] / ceilings["copy_bytes_per_s"])
    return least / row["seconds"]["warpweft"] if least > 0 else None


def geometric_mean(numbers):
    return math.exp(sum(map(math.log, numbers)) / len(numbers)) if numbers else float("nan")


def table(rows, peers, ceilings):
    """All cases as a table, a line each, and the geometric mean of the ratios."""
    head = ["case", "Warpweft", *(NAMES[peer] for peer in peers), "best peer / Warpweft", "of the machine's ceiling"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        times = [duration(row["seconds"][peer]) if peer in row["seconds"] else "" for peer in ["warpweft", *peers]]
        part = of_ceiling(row, ceilings)
        quotient = ratio(row)
        cells = [row["case"], *times, f"{quotient:.2f}" if quotient else "", f"{part:.0%}" if part else ""]
        lines.append("| " + " | ".join(cells) + " |")
    ratios = [ratio(row) for row in rows if ratio(row)]
    lines += ["", f"Geometric mean of best peer / Warpweft over {len(ratios)} cases: {geometric_mean(ratios):.2f}; "
              f"{sum(r >= 1 for r in ratios)} at 1.0 or above, {sum(r < 0.8 for r in ratios)} below 0.8."]
    return "\n".join(lines) + "\n"


def plot(rows, ceilings):
    """Two marks for each case on a logarithmic axis: the best peer's time over ours, and the part of the machine's ceiling."""
    left, width, height, top = 250, 560, 20, 60
    low, high = math.log(0.1), math.log(10)
    place = lambda value: left + width * (min(max(math.log(value), low), high) - low) / (high - low)
    total = top + height * len(rows) + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 70}" height="{total}" font-family="sans-serif" font-size="12">',
           f'<rect width="100%" height="100%" fill="white"/>',
           f'<text x="10" y="20" font-size="14">Time of the fastest other library over that of Warpweft (dots: right of 1 is faster)</text>',
           f'<text x="10" y="38" fill="#888">Bars: part of what the machine could do at most, by operations or bytes</text>']
    for value in (0.1, 0.2, 0.5, 1, 2, 5, 10):
        x = place(value)
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 8}" y2="{total - 24}" stroke="{"#333" if value == 1 else "#ddd"}"/>')
        out.append(f'<text x="{x:.1f}" y="{total - 8}" text-anchor="middle">{value:g}</text>')
    for number, row in enumerate(rows):
        y = top + height * number + 6
        out.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{row["case"]}</text>')
        part, quotient = of_ceiling(row, ceilings), ratio(row)
        if part:
            out.append(f'<rect x="{left}" y="{y - 3}" width="{place(part) - left:.1f}" height="6" fill="#d5dbe6"/>')
        if quotient:
            color = "#1a7f37" if quotient >= 1 else "#b35900" if quotient >= 0.8 else "#b00020"
            out.append(f'<circle cx="{place(quotient):.1f}" cy="{y}" r="4.5" fill="{color}"/>')
            out.append(f'<text x="{left + width + 8}" y="{y + 4}">{quotient:.2f}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
