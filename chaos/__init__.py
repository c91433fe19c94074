"""Campaigns of faults against real fleets and real servers, and the witnesses that judge them.

The pieces (a server that may be crashed, a standby, hosts with networks that can be cut, a pooler) are
used by the tests as well.
"""
