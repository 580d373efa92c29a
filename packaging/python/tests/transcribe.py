"""Transcribes noise: python transcribe.py MODEL OUTPUT never|first|late, which is when lastuse is imported."""

import json
import sys

MODEL, OUTPUT, IMPORT = sys.argv[1:4]
if IMPORT == "first":
    import lastuse

    lastuse.set("capture", OUTPUT + ".graphs")
import numpy
from pywhispercpp.model import Model

if IMPORT == "late":
    import lastuse

model = Model(MODEL, n_threads=1, redirect_whispercpp_logs_to=None)
sound = numpy.random.default_rng(1).normal(0, 0.1, 4 * 16000).astype(numpy.float32)
segments = model.transcribe(sound, temperature_inc=0.0, max_tokens=16, extract_probability=True, print_progress=False)
with open(OUTPUT, "w") as output:
    for segment in segments:
        print(segment.t0, segment.t1, segment.text, float(segment.probability).hex(), file=output)
if IMPORT == "first" and lastuse.enabled():
    print("stats=" + json.dumps(lastuse.stats()))
    print("explained=" + lastuse.explain().splitlines()[0])
