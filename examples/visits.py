"""Visits to a web site: clicks of a user with pauses shorter than 30 minutes, with their duration and the first page.

Prints:

    user  pages  entry    minutes
    ann       3  home          29
    ann       2  search         7
    bob       1  contact        0
"""

import pyarrow as pa

import lowwater as lw

clicks = pa.table(
    {
        "minute": [1, 30, 12, 5, 88, 81],
        "user": ["ann", "ann", "ann", "bob", "ann", "ann"],
        "page": ["home", "basket", "search", "contact", "basket", "search"],
    }
)
stream = lw.stream(clicks, name="clicks", progress="minute", disorder=20)
visits = (
    stream.session(gap=30)
    .group_by("user")
    .agg(pages=lw.count(), entry=lw.first("page"), began=lw.min("minute"), ended=lw.max("minute"))
)
visits.with_column("minutes", "ended - began").select("user", "pages", "entry", "minutes").show()
