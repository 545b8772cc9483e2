"""Each reading beside the median of the last ten minutes of its sensor, the reading itself included.

Readings arrive out of order, and each is answered once, when its ten minutes are complete.

Prints:

    minute  sensor  celsius  usual
         1  a            20     20
         4  a            21   20.5
         6  b             5      5
         9  a            90     21
        13  a            22     22
"""

import pyarrow as pa

import lowwater as lw

readings = pa.table(
    {"minute": [1, 9, 4, 6, 13], "sensor": ["a", "a", "a", "b", "a"], "celsius": [20.0, 90.0, 21.0, 5.0, 22.0]}
)
stream = lw.stream(readings, name="readings", progress="minute", disorder=10)
usual = stream.over("sensor", range=(10, 0)).agg(usual=lw.median("celsius"))
print("minute  sensor  celsius  usual")
for row in sorted(usual.collect().to_pylist(), key=lambda row: row["minute"]):
    print(f"{row['minute']:6}  {row['sensor']:6}  {row['celsius']:7g}  {row['usual']:5g}")
