import sys

sys.path.insert(0, "/work/w-harp/tests")
import time, numpy as np
from generated_runs import *
from steward.learn.estimators.applications.application import Application
from steward.learn.estimators.applications.selection import fitted
from steward.learn.estimators.applications.models import POOL

SMALL = [
    x
    for x in CAMPAIGN.configurations(full=False, most=100)
    if float(x["n"]) <= 64 and float(x["steps"]) <= 200
]
print(len(SMALL))
made = Application(CAMPAIGN.name, CAMPAIGN.parameters, CAMPAIGN.work)
t = time.time()
made.learn(measured([*SMALL, *SMALL, CAMPAIGN.configurations(full=True, most=9)[0]], seed=1))
print("learn", time.time() - t)
s = made._sample(measured(SMALL * 2), "seconds")
for n in POOL:
    t = time.time()
    m = fitted(n, s)
    print(n, time.time() - t)
