"""Make the record of what the runtimes compute: `python -m tests.tflite.record`, with HWFLOW_EXPORTERS set."""

from __future__ import annotations

import numpy as np

from tests.tflite import runtimes
from tests.tflite.test_operators import CASES, RECORD, SEEDS, asked, digest, engine, key


def main() -> None:
    found = {}
    for kind, width in CASES:
        for seed in SEEDS:
            _, data, row = asked(kind, width, seed)
            found[f"{key(kind, width, seed)}-asked"] = digest(data, row)
            for k, array in enumerate(runtimes.run(engine(kind, width), data, [row])[0]):
                found[f"{key(kind, width, seed)}-{k}"] = array
    np.savez_compressed(RECORD, **found)


if __name__ == "__main__":
    main()
