"""Keras' recurrent layers as TensorFlow writes them, with WHILE, and what TensorFlow Lite computes of them.

With a Python that has TensorFlow: `python tests/tflite/make_loops.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

STEPS, INPUTS, STATES, ROWS = 6, 4, 5, 4
LAYERS = {
    "GRU": lambda: tf.keras.layers.GRU(STATES),
    "GRU reset before": lambda: tf.keras.layers.GRU(STATES, reset_after=False),
    "GRU sequence": lambda: tf.keras.layers.GRU(STATES, return_sequences=True),
    "LSTM": lambda: tf.keras.layers.LSTM(STATES),
    "LSTM sequence": lambda: tf.keras.layers.LSTM(STATES, return_sequences=True),
    "RNN backwards": lambda: tf.keras.layers.SimpleRNN(STATES, go_backwards=True),
}


def converted(layer: tf.keras.layers.Layer) -> bytes:
    start = tf.keras.Input((STEPS, INPUTS), batch_size=1)
    model = tf.keras.Sequential([start, layer, tf.keras.layers.Dense(2)])
    shape = tf.TensorSpec((1, STEPS, INPUTS), tf.float32, name="x")
    function = tf.function(lambda x: model(x, training=False)).get_concrete_function(shape)
    return tf.lite.TFLiteConverter.from_concrete_functions([convert_variables_to_constants_v2(function)]).convert()


def computed(data: bytes, rows: np.ndarray) -> np.ndarray:
    interpreter = tf.lite.Interpreter(model_content=data)
    interpreter.allocate_tensors()
    (source,), (target,) = interpreter.get_input_details(), interpreter.get_output_details()
    found = []
    for row in rows:
        interpreter.set_tensor(source["index"], row[None])
        interpreter.invoke()
        found.append(interpreter.get_tensor(target["index"])[0])
    return np.array(found)


def main() -> None:
    tf.keras.utils.set_random_seed(0)
    rows = np.random.default_rng(0).normal(0, 1, (ROWS, STEPS, INPUTS)).astype(np.float32)
    arrays = {"rows": rows}
    for name, layer in LAYERS.items():
        data = converted(layer())
        arrays[f"{name}: file"] = np.frombuffer(data, np.uint8)
        arrays[f"{name}: results"] = computed(data, rows)
    np.savez_compressed(Path(__file__).with_name("loops.npz"), **arrays)


if __name__ == "__main__":
    main()
