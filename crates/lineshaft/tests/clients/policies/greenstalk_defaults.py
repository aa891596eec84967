"""Defaults by policy through greenstalk, which always sends everything. The server has the policies
of the test defaults."""

import os

import greenstalk

ADDRESS = ("127.0.0.1", int(os.environ["BEANSTALK_PORT"]))

for tube in ["urgent", "later", "short"]:
    with greenstalk.Client(ADDRESS, use=tube, watch=[tube]) as client:
        number = client.put("hello", priority=7, delay=0, ttr=60)
        stats = client.stats_job(number)
        assert (stats["pri"], stats["delay"], stats["ttr"]) == (7, 0, 60), stats
        assert client.reserve(timeout=0).id == number
