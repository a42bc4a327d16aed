"""The tables on accuracy: both models side by side, which classes they confuse, and which layer costs most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from hwflow_base.printable import NAME_WIDTH, number, percent, shortened

from ...accuracy import Accuracy, LayerNoise, Metric, OutputNoise, Task, decibels, most_harmful
from .terminal import Console

#: With more classes, the pairs that are confused most are shown instead of the whole table.
_MOST_CLASSES, _MOST_PAIRS = 20, 10
#: Rows that a table shows at most; --json has all of them.
_MOST = 100
_WIDTH = 40
#: Reals that are this close are the same number, rounded to float32.
_FLOAT32_DB = 130


def say_accuracy(console: Console, accuracy: Accuracy | None) -> None:
    """One line on what the data asks for, and one on how far the outputs of both models are apart."""
    if accuracy is None:
        return
    rows, headline = number(accuracy.rows), accuracy.headline
    if headline is not None and headline.real is not None and headline.integer is not None:
        name = "accuracy" if headline.name == "top-1" else headline.name
        labelled = "rows" if accuracy.task is Task.VALUES else "labelled rows"
        console.say(f"  {name} on {rows} {labelled}: float {value_text(headline, headline.real)}, "
                    f"integer {value_text(headline, headline.integer)} ({lost_text(headline)})")
    console.say(f"  integer against float outputs on {rows} rows: {whole_text(accuracy)}")


def show_accuracy(console: Console, accuracy: Accuracy) -> None:
    """Every measure that the data asks for, the agreement of both models, the confusion table, noise by output."""
    if accuracy.metrics:
        several = len({metric.output for metric in accuracy.metrics}) > 1
        named = [(metric, (shortened(metric.output, _WIDTH),) if several else ()) for metric in accuracy.metrics]
        columns = ("output",) if several else ()
        console.table(f"{accuracy.task.value} on {number(accuracy.rows)} rows",
                      (*columns, "measure", "float", "integer", "difference"), [
            (*name, metric.name, value_text(metric, metric.real), value_text(metric, metric.integer), lost_text(metric))
            for metric, name in named[:_MOST]])
    else:
        console.say(f"  no labels and no expected outputs: the integer model on {number(accuracy.rows)} rows is only "
                    "compared with the float model")
    for metric in accuracy.metrics:
        if metric.name == "AUC" and metric.real is None:
            console.say("  AUC needs rows of both labels, 0 and 1")
    if accuracy.agreement is not None:
        console.say(f"  both models give the same class to {percent(accuracy.agreement, 2)} of the rows")
    _show_confusion(console, accuracy)
    for noise in sorted(accuracy.outputs, key=lambda noise: noise.state)[:_MOST]:
        worst = f", largest error {noise.largest_error:.4g}" if noise.largest_error and noise.agreement is None else ""
        which = f"{kind_text(noise)} '{shortened(noise.output, _WIDTH)}'"
        console.say(f"  {which} against the float model: {apart_text(noise)}{worst}")


def whole_text(accuracy: Accuracy) -> str:
    """How far all outputs are apart: quantities in decibels, classes and other indices in per cent."""
    indices = [noise for noise in accuracy.outputs if noise.agreement is not None and not noise.state]
    texts = [f"'{shortened(noise.output, _WIDTH)}' {apart_text(noise)}" for noise in indices
             if noise.agreement != 1 or accuracy.snr_db is not None]
    if accuracy.snr_db is not None:
        texts.insert(0, decibels_of(accuracy.snr_db))
    return "; ".join(texts) or "equal"


def kind_text(noise: OutputNoise) -> str:
    """What an output is: states are none of the answers."""
    return "state" if noise.state else "output"


def apart_text(noise: OutputNoise) -> str:
    """How far an output is from the float model's."""
    if noise.agreement is not None:
        return f"equal in {percent(noise.agreement, 2)}"
    if noise.snr_db is not None:
        return decibels_of(noise.snr_db)
    return "equal" if noise.largest_error == 0 else "no signal, or numbers that are not finite"


def decibels_of(value: float) -> str:
    return f"{value:.1f} dB signal to noise"


def value_text(metric: Metric, value: float | None) -> str:
    """A share as per cent, R2 as it is, an error with four digits."""
    if value is None:
        return "not defined"
    if metric.name == "R2":
        return f"{value:.4f}"
    return percent(value, 2) if metric.share else f"{value:.4g}"


def lost_text(metric: Metric) -> str:
    """The gain (+) or loss (-) of the integer model, in points where it is a share."""
    if metric.lost is None:
        return ""
    if metric.name == "R2":
        return f"{round(-metric.lost / 100, 4) + 0.0:+.4f}"
    return f"{round(-metric.lost, 2) + 0.0:+.2f} points" if metric.share else f"{metric.lost:+.4g}"


def _show_confusion(console: Console, accuracy: Accuracy) -> None:
    """The classes that the integer model takes each class for."""
    names, called = sorted({k for pair in accuracy.confusion for k in (pair.label, pair.found)}), accuracy.class_name
    if accuracy.classes and accuracy.classes <= _MOST_CLASSES:
        names = list(range(accuracy.classes))
    if not accuracy.confusion:
        return
    if len(names) <= _MOST_CLASSES:
        cells: defaultdict[tuple[int, int], int] = defaultdict(int)
        cells.update({(pair.label, pair.found): pair.integer for pair in accuracy.confusion})
        console.table("answers by label", ("label", *map(called, names)),
                      [(called(label), *(str(cells[label, answer] or "") for answer in names)) for label in names])
        return
    wrong = sorted((p for p in accuracy.confusion if p.label != p.found and p.integer),
                   key=lambda pair: (-pair.integer, pair.label, pair.found))
    if wrong:
        console.table("classes that are confused most", ("label", "answer", "rows, integer", "rows, float"), [
            (called(p.label), called(p.found), str(p.integer), str(p.real)) for p in wrong[:_MOST_PAIRS]])


def show_layers(console: Console, noises: Sequence[LayerNoise], rows: int) -> None:
    """A row per tensor in the order of the graph; the worst one is marked, and a line names the layer to look at."""
    known = [noise for noise in noises if noise.noise is not None]
    if not known:
        console.say("  layer by layer: this model's tensors have no counterpart in reals to compare with")
        return
    if not console.verbose:
        show_few(console, noises, rows)
        return
    worst = min((n for n in known if n.snr_db is not None), key=lambda noise: noise.snr_db or 0.0, default=None)
    harmful = most_harmful(noises)
    lines = []
    for index, noise in enumerate(noises[:_MOST]):
        marks = [word for word, which in (("worst", worst), ("hurts most", harmful)) if noise is which]
        name = noise.layer or f"input {noise.source or noise.tensor}"
        lines.append((
            str(index), shortened(name, _WIDTH), noise.kind, noise.weights, noise.activations,
            decibels_text(noise), _original(noise), steps_text(noise, noise.bias), steps_text(noise, noise.largest),
            "" if noise.saturated is None else share_text(noise.saturated), ", ".join(marks)))
    console.table(f"integer against float, layer by layer, on {number(rows)} rows",
                  ("", "layer", "kind", "weights", "output", "SNR dB", "file dB", "mean error", "largest error",
                   "saturated", ""),
                  lines, key=2, second=5)
    if len(noises) > _MOST:
        console.say(f"  and {len(noises) - _MOST} more; --json lists all")
    console.say("  errors in steps of the layer's output; saturated: elements that its integers cannot reach;")
    console.say("  file dB: against the same tensor of the model as its file has it")
    if harmful is not None:
        console.say(f"  {_harm(harmful)}")


def show_few(console: Console, noises: Sequence[LayerNoise], rows: int) -> None:
    """A row per tensor that fits a terminal, and what the numbers mean."""
    harmful = most_harmful(noises)
    console.table(f"integer against float, layer by layer, on {number(rows)} rows",
                  ("layer", "kind", "weights", "output", "dB", ""), [
        (shortened(noise.layer or f"input {noise.source or noise.tensor}", NAME_WIDTH), noise.kind, noise.weights,
         noise.activations, decibels_text(noise), "hurts most" if noise is harmful else "")
        for noise in noises[:_MOST]])
    if len(noises) > _MOST:
        console.say(f"  and {len(noises) - _MOST} more; --json lists all")
    console.say("  dB: how close the integers of a layer are to the float model: at 20 dB they are off by 10 %, at "
                "40 dB by 1 % of the values")
    if harmful is not None:
        console.say(f"  {_harm(harmful)}")


def _harm(noise: LayerNoise) -> str:
    inputs = "exact" if noise.inputs_db is None else f"{noise.inputs_db:.1f} dB"
    weights = f"weights {noise.weights}, " if noise.weights else ""
    return (f"layer '{shortened(noise.layer, 3 * _WIDTH)}' hurts most: from {inputs} at its inputs to "
            f"{decibels_text(noise)} dB at its output ({weights}output {noise.activations})")


def decibels_text(noise: LayerNoise) -> str:
    if noise.noise is None:
        return ""
    if noise.noise == 0:
        return "exact"
    return "no signal" if noise.snr_db is None else f"{noise.snr_db:.1f}"


def _original(noise: LayerNoise) -> str:
    if noise.original_ratio is None:
        return ""
    ratio_db = decibels(noise.original_ratio)
    return "exact" if ratio_db is None or ratio_db > _FLOAT32_DB else f"{ratio_db:.1f}"


def steps_text(noise: LayerNoise, value: float | None) -> str:
    return "" if value is None else f"{round(value / noise.step, 2) + 0.0:.2f}"  # never -0.00


def share_text(value: float) -> str:
    """Per cent; what is not nothing never shows as 0."""
    return "0 %" if value == 0 else "< 0.01 %" if value < 0.0001 else percent(value, 2)
