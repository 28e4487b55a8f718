"""Where it was measured."""
import os
import platform
import subprocess


def first_line(*command):
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return f"no {command[0]}"
    return ((run.stdout or run.stderr).splitlines() or [""])[0].strip()


def package(name):
    return name + " " + (first_line("dpkg-query", "-W", "-f", "${Version}", name) or "missing")


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return platform.machine()


def disk(path):
    lines = subprocess.run(["df", "--output=source,fstype", path], capture_output=True, text=True, check=False).stdout
    return " ".join(lines.splitlines()[-1].split())


def describe():
    """Lines of text. To be called before anything is measured, for the load's sake."""
    return [f"{os.cpu_count()} cores ({processor()}), Linux {platform.release()}, load before the run {os.getloadavg()[0]:.2f}",
            f"disk: {disk('/var/tmp')}",
            ", ".join(package(name) for name in ("libzookeeper-java", "libzookeeper-mt2", "libcurator-recipes-java", "python3-kazoo",
                                                 "redis-server", "postgresql-15")),
            first_line("java", "-version") + "; " + first_line("gcc", "--version")]
