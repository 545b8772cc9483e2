"""What Spark's driver opens when a query starts: the state variables of a stage, and nothing of the plan."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.serializers import CloudPickleSerializer

import lowwater as lw
from lowwater.backends.spark.host import Host, StageRun
from lowwater.backends.spark.sealed import sealed
from tests.spark.answers import rows, stream_of

pytestmark = pytest.mark.spark

DRIVER = """
import json, pickle, sys
import pyspark.sql.streaming.transform_with_state_driver_worker  # what Spark starts there


class Handle:
    declared = {}

    def getMapState(self, name, keys, values):
        self.declared[name] = (keys.simpleString(), values.simpleString())


processor = pickle.load(sys.stdin.buffer)
processor.init(Handle())
loaded = sorted({"lowwater", "pandas", "pyarrow", "numpy"} & set(sys.modules))
processor.close()
opened = pickle.loads(processor._contents)
print(json.dumps({"declared": Handle.declared, "loaded": loaded, "opened": type(opened).__name__}))
"""


def test_the_state_of_a_stage_is_declared_without_importing_the_package() -> None:
    plan = stream_of(rows(10)).plan
    processor = CloudPickleSerializer().dumps(sealed(Host(StageRun(plan, 0, 2, {}))))
    root = Path(lw.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", DRIVER], input=processor, capture_output=True, cwd=root, check=False)
    assert done.returncode == 0, done.stderr.decode()
    report = json.loads(done.stdout)
    assert report["loaded"] == []
    assert report["declared"] == {  # types, which the JVM need not parse in every task
        "directory": ["struct<path:string>", "struct<text:string>"],
        "segments": ["struct<path:string,id:string>", "struct<data:binary>"],
    }
    assert report["opened"] == "Host"
