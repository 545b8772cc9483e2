"""Users with three views or more within ten minutes, looked at every five minutes. The rows arrive out of order.

Prints:

    window_start  window_end  user  views
               0          10  ann       3
               5          15  ann       4
"""

import pyarrow as pa

import lowwater as lw

views = pa.table(
    {
        "minute": [1, 6, 3, 8, 14, 7, 12, 25, 11],
        "user": ["ann", "ann", "bob", "bob", "ann", "ann", "ann", "bob", "bob"],
    }
)
stream = lw.stream(views, name="views", progress="minute", disorder=15)
busy = stream.window(range=10, slide=5).group_by("user").agg(views=lw.count()).where("views >= 3")
busy.select("window_start", "window_end", "user", "views").show()
