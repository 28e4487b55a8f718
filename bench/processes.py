"""A session to a process, as most services have it: 8 processes on one lock, and one on a lock that is free.

   processes.py BUILD [ROUNDS [MS]]

libzklock, libzklock_st and bare recipes on their client libraries take turns in every round, in the other order in odd ones; what counts is
the median of the ratios within rounds."""
import concurrent.futures
import itertools
import os
import statistics
import sys

from figures import figures
from systems import Driver, ZooKeeper

SYSTEMS = {"zklock": "bench_zklock", "zklock_st": "bench_zklock_st", "raw": "bench_raw", "raw_st": "bench_raw_st"}
PROCESSES = 8
paths = itertools.count()


def play(drivers, server, ms):
    path = f"/bench/processes/{next(paths)}"

    def run(driver):
        return driver.run("sessions", 1, ms, 0, path, lambda: None, server.process.pid)
    with concurrent.futures.ThreadPoolExecutor(len(drivers)) as pool:
        answers = list(pool.map(run, drivers))
    sections = [(number, *section[1:]) for number, answer in enumerate(answers) for section in answer[0]]
    result = figures("sessions", sections, {}, [None, None])
    result["cpu_us"] = 1e6 * sum(answer[1]["client_cpu_s"] for answer in answers) / len(sections)
    return result


def shown(title, rounds, name, one, other):
    ratios = [results[one][name] / results[other][name] for results in rounds if results[other][name]]  # 0: less than a tick of the clock
    low, median, high = statistics.quantiles(ratios, n=4)
    print(f"{title}: {one} {statistics.median(r[one][name] for r in rounds):.1f}, {other} "
          f"{statistics.median(r[other][name] for r in rounds):.1f}; ratio {median:.2f} ({low:.2f} to {high:.2f})")


def main():
    build = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    ms = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
    server = ZooKeeper(build, "tmpfs")
    drivers = {name: [Driver([f"{build}/bench/{program}", server.servers]) for _ in range(PROCESSES)]
               for name, program in SYSTEMS.items()}
    free, eight = [], []
    for number in range(count + 1):
        order = list(SYSTEMS) if number % 2 == 0 else list(reversed(SYSTEMS))
        for rounds, processes in ((free, 1), (eight, PROCESSES)):
            rounds.append({name: play(drivers[name][:processes], server, ms) for name in order})
    del free[0], eight[0]  # warming up
    wrong = sum(result["overlaps"] for results in free + eight for result in results.values())
    print(f"{count} rounds of {ms} ms, {PROCESSES} processes, load {os.getloadavg()[0]:.1f}; sections that overlap: {wrong}")
    shown("8 processes, grants a second", eight, "grants_s", "zklock_st", "zklock")
    shown("8 processes, grants a second", eight, "grants_s", "zklock_st", "raw_st")
    shown("8 processes, processor per grant, us", eight, "cpu_us", "zklock_st", "zklock")
    shown("free lock, acquire and release, us", free, "cycle_us", "zklock_st", "zklock")
    shown("free lock, acquire and release, us", free, "cycle_us", "zklock_st", "raw_st")
    shown("free lock, acquire and release, us", free, "cycle_us", "zklock_st", "raw")
    shown("free lock, processor per grant, us", free, "cpu_us", "zklock_st", "zklock")
    for name in SYSTEMS:
        for driver in drivers[name]:
            driver.stop()
    server.stop()
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
