"""What compare prints of its rows, and the tables and the chart of a page."""
import pathlib
import platform
import re
from xml.sax.saxutils import escape

BEGIN, END = "<!-- compare -->", "<!-- /compare -->"
COLOURS = {"JAX": "#4c78a8", "PyTorch": "#e45756", "PyTorch compile": "#f2a29b",
           "TensorFlow": "#f58518", "TensorFlow XLA": "#ffc685", "JAX shard_map": "#4c78a8",
           "PyTorch DDP": "#e45756", "TensorFlow Mirrored": "#f58518"}


def machine():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def setting_of(row):
    return row["model"], row["changed"], row["threads"], row["replicas"]


def grouped(rows):
    """Lists of the rows of one setting, which have been measured in turn."""
    found = {}
    for row in rows:
        found.setdefault(setting_of(row), []).append(row)
    return list(found.values())


def measured(rows):
    return [row for row in rows if "seconds_min" in row]


def ours(rows):
    return next(row for row in rows if row["peer"] == "tfd")


def best_peer(rows):
    """Of one setting; None if no peer works."""
    peers = [row for row in measured(rows) if row["peer"] != "tfd"]
    return min(peers, key=lambda row: row["seconds_min"], default=None)


def ratio(rows):
    best = best_peer(rows)
    return ours(rows)["seconds_min"] / best["seconds_min"] if best else None


def label(row):
    text = row["model"] + (f" ({row['changed']})" if row["changed"] else "")
    return text + (", 2 replicas" if row["replicas"] > 1 else "")


def seconds(value):
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def milliseconds(value):
    """Three digits."""
    value *= 1e3
    return f"{value:.{max(0, 2 - len(str(int(value))) + (value >= 1))}f}" if value >= 1 else f"{value:.3g}"


def table(rows):
    """Of one setting, for a terminal."""
    first, base = rows[0], ours(rows)["seconds_min"]
    lines = [f"\n{label(first)}, {first['threads']} threads: {first['flops'] / 1e9:.3g} Gflop a step, "
             f"peak {first['peak_flops'] / 1e9:.0f} GF/s",
             f"{'':20} {'ms min':>9} {'median':>9} {'peak':>6} {'tfd/it':>7} {'compile cold':>13} "
             f"{'warm':>7} {'1st step cold':>14} {'warm':>7} {'MB':>7}"]
    for row in rows:
        if "error" in row:
            lines.append(f"{row['peer']:20} does not take part: {row['error']}")
            continue
        compiled, first_step = row["compile_seconds"], row["first_step_seconds"]
        lines.append(
            f"{row['peer']:20} {milliseconds(row['seconds_min']):>9} "
            f"{milliseconds(row['seconds_median']):>9} {100 * row['of_peak']:5.1f}% "
            f"{base / row['seconds_min']:7.2f} {seconds(compiled.get('cold')):>13} "
            f"{seconds(compiled.get('warm')):>7} {seconds(first_step.get('cold')):>14} "
            f"{seconds(first_step.get('warm')):>7} {row['memory_bytes'] / 1e6:7.0f}")
    return "\n".join(lines)


def summary(rows):
    """A line for each setting, for a terminal: where tfd is behind comes first."""
    groups = sorted(filter(best_peer, grouped(rows)), key=ratio, reverse=True)
    lines = [f"\n{'tfd / best':36} {'threads':>7} {'tfd, ms':>9} {'best, ms':>9}"]
    for group in groups:
        best = best_peer(group)
        lines.append(f"{label(group[0]):28} {ratio(group):7.2f} {group[0]['threads']:7} "
                     f"{milliseconds(ours(group)['seconds_min']):>9} "
                     f"{milliseconds(best['seconds_min']):>9}  {best['peer']}")
    return "\n".join(lines)


# ---- a page --------------------------------------------------------------------


def peers_of(groups):
    """The contestants of some settings, tfd first."""
    names = [row["peer"] for rows in groups for row in rows]
    return sorted(set(names), key=lambda name: (name != "tfd", list(COLOURS).index(name)
                                                if name in COLOURS else 0))


def cells(groups, lead, value):
    """A table with a column for each contestant; value gives the text of a row's cell."""
    names = peers_of(groups)
    head = lead[0] + names + lead[2]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for rows in groups:
        by_name = {row["peer"]: row for row in measured(rows)}
        middle = [value(by_name[name]) if name in by_name else "–" for name in names]
        lines.append("| " + " | ".join(lead[1](rows) + middle + lead[3](rows)) + " |")
    return "\n".join(lines)


def times_table(groups):
    def tail(rows):
        return [f"{ratio(rows):.2f}" if best_peer(rows) else "–", f"{100 * ours(rows)['of_peak']:.0f}"]
    return cells(groups, (["step, ms", "threads"],
                          lambda rows: [label(rows[0]), str(rows[0]["threads"])],
                          ["tfd / best", "% of peak"], tail),
                 lambda row: milliseconds(row["seconds_min"]))


def start_table(groups):
    def value(row):
        compiled, first = row["compile_seconds"], row["first_step_seconds"]
        return (f"{seconds(compiled.get('cold'))} {seconds(compiled.get('warm'))}; "
                f"{seconds(first.get('cold'))} {seconds(first.get('warm'))}")
    return cells(groups, (["seconds"], lambda rows: [label(rows[0])], [], lambda rows: []), value)


def memory_table(groups):
    return cells(groups, (["MB"], lambda rows: [label(rows[0])], [], lambda rows: []),
                 lambda row: f"{row['memory_bytes'] / 1e6:.0f}")


def versions(rows):
    found = {row["version"] for row in measured(rows) if row["peer"] != "tfd"}
    return ", ".join(sorted(found))


def chart(groups):
    """Bars: a step of each peer, where tfd's is 1; those beyond LONGEST are cut."""
    longest, unit, left, thick = 4.0, 110, 190, 12
    parts, y = [], 34
    for rows in groups:
        base, peers = ours(rows)["seconds_min"], [r for r in measured(rows) if r["peer"] != "tfd"]
        name = f"{label(rows[0])}, {rows[0]['threads']} threads"
        parts.append(f'<text x="{left - 8}" y="{y + thick * len(peers) / 2 + 4:.0f}" '
                     f'text-anchor="end">{escape(name)}</text>')
        for row in peers:
            times = row["seconds_min"] / base
            parts.append(f'<rect x="{left}" y="{y}" width="{unit * min(times, longest):.1f}" '
                         f'height="{thick - 2}" fill="{COLOURS[row["peer"]]}"/>')
            parts.append(f'<text x="{left + unit * min(times, longest) + 4:.1f}" y="{y + thick - 3}" '
                         f'font-size="9">{times:.2f}</text>')
            y += thick
        y += 8
    width, x = left + int(unit * longest) + 50, left
    legend = []
    for name in [n for n in peers_of(groups) if n != "tfd"]:
        legend.append(f'<rect x="{x}" y="8" width="9" height="9" fill="{COLOURS[name]}"/>'
                      f'<text x="{x + 12}" y="16" font-size="9">{name}</text>')
        x += 28 + 6 * len(name)
    line = (f'<line x1="{left + unit}" y1="26" x2="{left + unit}" y2="{y}" stroke="#222" '
            'stroke-dasharray="3 2"/>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{max(width, x)}" height="{y + 6}" '
            'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
            + "\n".join(legend + parts + [line]) + "</svg>\n")


def origin(run):
    return (f"`{run['command']}`, {run['date']}, {run['cores']} cores of {run['machine']}; "
            f"{run['rounds']} interleaved bursts.")


def rows_of(runs):
    """Of all settings; a later run's stand for an earlier one's."""
    found = {}
    for run in runs:
        for rows in grouped(run["rows"]):
            found[setting_of(rows[0])] = rows
    return [row for rows in found.values() for row in rows]


def page(runs, svg):
    all_rows = rows_of(runs)
    groups = grouped(all_rows)
    one = [rows for rows in groups if rows[0]["replicas"] == 1]
    fewest = min((rows[0]["threads"] for rows in one), default=1)
    start = [rows for rows in one if rows[0]["threads"] == fewest]
    parts = ["\n".join(f"- {origin(run)}" for run in runs), f"{versions(all_rows)}.",
             f"Milliseconds of a training step, the best of all bursts:\n\n{times_table(groups)}",
             f"![a peer's step, where tfd's is 1]({svg})",
             "Seconds with empty and with filled caches: to compile; from the start of the process to the "
             f"end of the first step:\n\n{start_table(start)}",
             f"The most memory that the process had resident, in MB:\n\n{memory_table(start)}"]
    excluded = [f"{label(r)}, {r['threads']} threads: {r['peer']}: {r['error']}"
                for r in all_rows if "error" in r]
    if excluded:
        parts.append("Not compared:\n\n" + "\n".join(f"- {line}" for line in excluded))
    return "\n\n".join(parts)


def write_page(path, runs):
    """Replaces what is between the two marks, and writes the chart beside the page."""
    path = pathlib.Path(path)
    text, svg = path.read_text(), path.with_name("compare.svg")
    replaced, count = re.subn(f"{BEGIN}.*{END}",
                              lambda _: f"{BEGIN}\n\n{page(runs, svg.name)}\n\n{END}", text, flags=re.S)
    if count != 1:
        raise SystemExit(f"compare: {path} has no place between {BEGIN} and {END}")
    path.write_text(replaced)
    svg.write_text(chart(grouped(rows_of(runs))))
