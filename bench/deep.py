"""How long it takes to plan random networks of 20 to 120 layers, and how much memory: each in a process of its own.

    python -m bench.deep [FIRST:COUNT]     networks of these seeds, and the one of `landmarks`, on three boards
"""

from __future__ import annotations

import json
import resource
import sys
import time

from hwflow_base.errors import AnswerIsNo

from bench.networks import run
from bench.sections import table
from hwflow.pipeline.planning import executions_of
from hwflow.stages.partition import Execution
from hwflow.synth import load_board
from tests.random_cases import asked
from tests.strategies.deep_graphs import deep_network, landmarks

BOARDS = ("ulx3s_85f", "colorlight_i5", "icebreaker")
LANDMARKS = "landmarks"


def planned(name: str, board: str) -> dict[str, object]:
    """The answer of one network, the steps of its search, its processor time in seconds and its memory in MB."""
    graph = landmarks() if name == LANDMARKS else deep_network(int(name))
    executions = executions_of(graph, graph, load_board(board))
    began = time.process_time()
    try:
        plan = executions.plan(Execution.AUTO, None)
        answer = f"{plan.execution}, {plan.interval:,} cycles"
    except AnswerIsNo:
        answer = "does not fit"
    seconds = time.process_time() - began
    return {"network": graph.name, "layers": len(graph.layers), "board": board, "answer": answer,
            "steps": executions.effort.spent, "early": executions.effort.bound is not None,
            "seconds": round(seconds, 1), "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}


def main() -> int:
    if len(sys.argv) == 3:
        print(json.dumps(planned(*sys.argv[1:])))
        return 0
    seeds = asked(sys.argv[1] if len(sys.argv) > 1 else "0:20")
    found = []
    for name in (LANDMARKS, *map(str, seeds)):
        for board in BOARDS:
            found.append(run([sys.executable, "-m", "bench.deep", name, board], {}).answer)
            print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    good = [each for each in found if "error" not in each]
    worst = {key: max(good, key=lambda each: each[key]) for key in ("seconds", "megabytes")}
    rows = [[key, each["network"], each["board"], each[key]] for key, each in worst.items()]
    print(table(("worst", "network", "board", "measured"), rows))
    return 0 if len(good) == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
