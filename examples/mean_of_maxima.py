"""The average, over each hour, of the highest load of each minute: an aggregation over an aggregation.

Prints:

    window_start  window_end  average_peak
               0        3600          75.0
            3600        7200          40.0
"""

import pyarrow as pa

import lowwater as lw

load = pa.table({"second": [5, 42, 70, 61, 3599, 3700, 50], "percent": [60, 90, 30, 50, 85, 40, 20]})
stream = lw.stream(load, name="load", progress="second", disorder=3600)
peaks = stream.window(60).agg(peak=lw.max("percent"))
mean = peaks.window(3600).agg(average_peak=lw.avg("peak"))
mean.select("window_start", "window_end", "average_peak").show()
