#!/bin/sh
# Exits 0 when a Java that Spark can run on is there, after installing one with the system's package manager if need
# be and permitted. Spark takes $JAVA_HOME/bin/java when JAVA_HOME is set and `java` on the PATH otherwise; so do we.
set -u

oldest=17

fail() {
    echo "$1" >&2
    exit 1
}

# The major version of the Java that Spark would start; nothing when there is none. Java 8 calls itself 1.8.
version() {
    "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\([0-9][0-9]*\).*/\1/p' | head -n 1
}

good() {
    found=$(version)
    [ -n "$found" ] && [ "$found" -ge "$oldest" ]
}

good && exit 0

# Installing another Java changes nothing for a JAVA_HOME that points elsewhere.
[ -z "${JAVA_HOME:-}" ] ||
    fail "JAVA_HOME is $JAVA_HOME, where Java is ${found:-missing}: point it to a Java $oldest or newer, or unset it, and run make setup again."

advice="Spark needs Java $oldest or newer${found:+ (found Java $found)}: install a headless JRE with your package manager or set JAVA_HOME, and run make setup again."

if [ "$(id -u)" = 0 ]; then
    root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    root="sudo -n"
else
    root="no"
fi

# Tries the packages in turn, newest first: not every release of a distribution has each of them.
try() {
    for package in $packages; do
        echo "Installing $package with $manager ..."
        "$@" "$package" >/dev/null 2>&1 && good && exit 0
    done
}

if [ "$root" != no ]; then
    if command -v apt-get >/dev/null 2>&1; then
        manager=apt-get packages="openjdk-21-jre-headless openjdk-17-jre-headless"
        $root apt-get update >/dev/null 2>&1
        try $root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends
    elif command -v dnf >/dev/null 2>&1; then
        manager=dnf packages="java-21-openjdk-headless java-17-openjdk-headless"
        try $root dnf install -y
    elif command -v apk >/dev/null 2>&1; then
        manager=apk packages="openjdk21-jre-headless openjdk17-jre-headless"
        try $root apk add --no-cache
    fi
fi

# Homebrew refuses to run as root and needs no sudo. It leaves its Java off the PATH, so the user has to point to it.
if command -v brew >/dev/null 2>&1 && [ "$(id -u)" != 0 ]; then
    manager=brew packages="openjdk@21"
    try brew install
    [ -x "$(brew --prefix openjdk@21 2>/dev/null)/bin/java" ] &&
        advice="Java is installed but not on the PATH: run export JAVA_HOME=$(brew --prefix openjdk@21) and make setup again."
fi

fail "$advice"
