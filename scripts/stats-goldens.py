#!/usr/bin/env python3
"""Writes crates/thermocline-lab/testdata/stats_goldens.json: what scipy says of perturbed copies of the
twelve comparisons of seed 000. The lab's statistics are tested against it.

    python3 -m venv v && v/bin/pip install scipy==1.17.1 && v/bin/python scripts/stats-goldens.py
"""
import decimal
import itertools
import json
import math
import pathlib

import numpy
import scipy
from scipy import integrate, special, stats

DATA = pathlib.Path(__file__).resolve().parent.parent / "crates/thermocline-lab/testdata"
SEED = 20260401
decimal.getcontext().prec = 50


def perturbed(x, y, rng, kind):
    """A copy of both samples, changed in one way."""
    x, y = numpy.array(x), numpy.array(y)
    if kind == "noise":
        return x * rng.normal(1, 0.01, x.size), y * rng.normal(1, 0.01, y.size)
    if kind == "few":
        return rng.permutation(x)[: rng.integers(2, 6)], rng.permutation(y)[: rng.integers(2, 6)]
    if kind == "uneven":
        return rng.permutation(x)[:4], numpy.concatenate([y, y * rng.normal(1, 0.02, y.size)])
    if kind == "ties":
        return numpy.round(x, -3), numpy.round(y, -3)
    if kind == "offset":
        return rng.normal(0, 1, 7) + 1e7, rng.normal(0.5, 2, 9) + 1e7
    if kind == "scale":
        return x * 1e-9, y * 1e-9
    if kind == "swap":
        return y, x
    raise ValueError(kind)


def welch(x, y, level):
    r = stats.ttest_ind(x, y, equal_var=False)
    ci = r.confidence_interval(level)
    return {"t": r.statistic, "df": r.df, "p": r.pvalue, "low": ci.low, "high": ci.high}


def fieller(x, y, df, level):
    """Interval of 100 (mean(y) / mean(x) - 1) with fifty digits; None when unbounded."""
    def mean_and_error(sample):
        exact = [decimal.Decimal(float(value)) for value in sample]
        mean = sum(exact) / len(exact)
        return mean, sum((v - mean) ** 2 for v in exact) / (len(exact) - 1) / len(exact)

    t = decimal.Decimal(float(stats.t.ppf((1 + level) / 2, df)))
    (mx, vx), (my, vy) = mean_and_error(x), mean_and_error(y)
    a, b, c = mx * mx - t * t * vx, mx * my, my * my - t * t * vy
    inside = b * b - a * c
    if a <= 0 or inside < 0:
        return None
    root = inside.sqrt()
    return [float(((b - root) / a - 1) * 100), float(((b + root) / a - 1) * 100)]


def hedges(x, y):
    df = x.size + y.size - 2
    pooled = math.sqrt(((x.size - 1) * x.var(ddof=1) + (y.size - 1) * y.var(ddof=1)) / df)
    return (y.mean() - x.mean()) / pooled * (1 - 3 / (4 * df - 1))


def has_ties(x, y):
    both = numpy.concatenate([x, y])
    return numpy.unique(both).size < both.size


def rank(x, y):
    method = "asymptotic" if has_ties(x, y) else "exact"
    r = stats.mannwhitneyu(x, y, method=method)
    return {"u": r.statistic, "p": r.pvalue, "method": "normal" if method == "asymptotic" else "exact"}


def p_of_u(u, nx, ny):
    """P(U <= u) without ties, by scipy's exact test on samples laid out to give that U."""
    y = numpy.arange(ny, dtype=float) * 2
    x = numpy.full(nx, -1.0) - numpy.arange(nx)
    left = u
    for i in range(nx):
        take = min(left, ny)
        x[i] = 2 * take - 1 - i * 1e-3
        left -= take
    assert left == 0
    r = stats.mannwhitneyu(x, y, method="exact", alternative="less")
    assert r.statistic == u, (r.statistic, u)
    return r.pvalue


def shift(x, y, level):
    """Hodges and Lehmann's shift of y over x and its interval."""
    d = numpy.sort((y[:, None] - x[None, :]).ravel())
    n = d.size
    if has_ties(x, y):
        both = numpy.concatenate([x, y])
        _, counts = numpy.unique(both, return_counts=True)
        total = both.size
        tied = (counts.astype(float) ** 3 - counts).sum()
        sd = math.sqrt(x.size * y.size / 12 * (total + 1 - tied / (total * (total - 1))))
        k = max(1, math.floor(n / 2 - stats.norm.ppf((1 + level) / 2) * sd))
        reached = level
    else:
        k = 1
        while k < (n + 2) // 2 and p_of_u(k, x.size, y.size) <= (1 - level) / 2:
            k += 1
        reached = 1 - 2 * p_of_u(k - 1, x.size, y.size)
    return {"shift": numpy.median(d), "low": d[k - 1], "high": d[n - k], "level": reached}


def tost(x, y, bound, alpha):
    """The larger one-sided p, by shifting y by the bound either way."""
    above = stats.ttest_ind(y + bound, x, equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(y - bound, x, equal_var=False, alternative="less").pvalue
    return {"bound": bound, "alpha": alpha, "p": max(above, below)}


def paired(x, y, level):
    r = stats.ttest_rel(y, x)
    ci = r.confidence_interval(level)
    return {"t": r.statistic, "df": r.df, "p": r.pvalue, "low": ci.low, "high": ci.high}


def comparison(name, x, y, level, bound_percent):
    w = welch(x, y, level)
    case = {
        "name": name,
        "x": list(x),
        "y": list(y),
        "level": level,
        "welch": w,
        "fieller": fieller(x, y, w["df"], level),
        "hedges_g": hedges(x, y),
        "rank": rank(x, y),
        "shift": shift(x, y, level),
        "tost": tost(x, y, abs(x.mean()) * bound_percent / 100, 1 - level),
    }
    if x.size == y.size:
        case["paired"] = paired(x, y, level)
    return case


def comparisons(golden, rng):
    kinds = ["noise", "few", "uneven", "ties", "offset", "scale", "swap"]
    for c in golden["comparisons"]:
        for kind in kinds:
            x, y = perturbed(c["x"], c["y"], rng, kind)
            level = float(rng.choice([0.9, 0.95, 0.99]))
            yield comparison(f"{c['name']} {kind}", x, y, level, float(rng.uniform(0.5, 8)))


def families(rng):
    for size in [1, 2, 5, 12, 40]:
        p = rng.uniform(0, 1, size) ** 3
        order = numpy.argsort(p)
        holm = numpy.empty(size)
        worst = 0.0
        for place, at in enumerate(order):
            worst = max(worst, min(1.0, (size - place) * p[at]))
            holm[at] = worst
        yield {"p": list(p), "holm": list(holm), "bh": list(stats.false_discovery_control(p))}


def drifts(rng):
    """Ordinary least squares with a column for each arm and one for the position."""
    for arms, runs in [(1, 6), (2, 12), (4, 40), (3, 9)]:
        arm = rng.integers(0, arms, runs)
        arm[:arms] = numpy.arange(arms)
        position = numpy.arange(runs, dtype=float)
        value = 1000 + 50 * arm + rng.normal(0, 3, runs) + rng.uniform(-1, 1) * position
        design = numpy.column_stack([position] + [(arm == a).astype(float) for a in range(arms)])
        beta, _, _, _ = numpy.linalg.lstsq(design, value, rcond=None)
        rest = value - design @ beta
        df = runs - arms - 1
        cov = numpy.linalg.inv(design.T @ design) * (rest @ rest) / df
        se = math.sqrt(cov[0, 0])
        t = beta[0] / se
        yield {
            "position": list(position), "arm": [int(a) for a in arm], "value": list(value),
            "slope": beta[0], "standard_error": se, "df": df, "p": 2 * stats.t.cdf(-abs(t), df),
        }


def noncentral(t, df, shift_):
    """P(T <= t) by quadrature over the chi distribution: scipy's own nct gives NaN in places."""
    def inner(s):
        log = (df - 1) * math.log(s) - df * s * s / 2
        norm = math.log(2) + df / 2 * math.log(df / 2) - special.gammaln(df / 2)
        return special.ndtr(t * s - shift_) * math.exp(log + norm)

    peak = 1.0
    parts = [(0, peak / 4), (peak / 4, peak), (peak, 2 * peak), (2 * peak, 8 * peak)]
    return sum(integrate.quad(inner, a, b, epsabs=1e-13, epsrel=1e-12, limit=500)[0] for a, b in parts)


def powers():
    for runs, effect, cv, alpha in [
        (2, 5, 0.6, 0.05), (2, 3, 0.6, 0.05), (2, 10, 1.5, 0.05), (3, 5, 1.5, 0.05), (10, 2, 1.5, 0.05), (9, 2, 1.5, 0.05),
        (37, 1, 1.5, 0.05), (36, 1, 1.5, 0.05), (394, 1, 5, 0.05), (20, 3, 5, 0.01), (64, 5, 10, 0.1),
    ]:
        df = 2 * runs - 2
        delta = effect / cv * math.sqrt(runs / 2)
        t = stats.t.ppf(1 - alpha / 2, df)
        value = 1 - noncentral(t, df, delta) + noncentral(-t, df, delta)
        yield {"runs": runs, "effect": effect, "cv": cv, "alpha": alpha, "power": value}


def alarms():
    for hits, n in [(0, 1), (0, 20), (1, 20), (7, 20), (20, 20), (13, 250)]:
        ci = stats.binomtest(hits, n).proportion_ci(0.95, "exact")
        yield {"alarms": hits, "comparisons": n, "low": ci.low, "high": ci.high}


def tables():
    for x, y in itertools.product([(0, 6), (1, 6), (3, 10), (0, 2), (17, 40)], [(6, 6), (4, 9), (2, 3), (30, 31)]):
        table = [[x[0], x[1] - x[0]], [y[0], y[1] - y[0]]]
        yield {"x": x, "y": y, "p": stats.fisher_exact(table)[1]}


def plain(value):
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, numpy.generic):
        return value.item()
    return value


def block(value):
    """A list with a line for each case; anything else on one line."""
    if not isinstance(value, list):
        return json.dumps(value)
    return "[\n " + ",\n ".join(json.dumps(case) for case in value) + "\n]"


def main():
    golden = json.loads((DATA / "golden_welch.json").read_text())
    rng = numpy.random.default_rng(SEED)
    out = {
        "about": "Perturbed copies of the comparisons in golden_welch.json; made by scripts/stats-goldens.py",
        "computed_with": {"scipy": scipy.__version__, "numpy": numpy.__version__},
        "comparisons": list(comparisons(golden, rng)),
        "families": list(families(rng)),
        "drifts": list(drifts(rng)),
        "powers": list(powers()),
        "alarms": list(alarms()),
        "tables": list(tables()),
    }
    parts = [f"{json.dumps(key)}: {block(plain(value))}" for key, value in out.items()]
    text = "{\n" + ",\n".join(parts) + "\n}\n"
    (DATA / "stats_goldens.json").write_text(text)
    print(f"{len(out['comparisons'])} comparisons, {len(text)} bytes")


if __name__ == "__main__":
    main()
