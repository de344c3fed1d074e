# %% [markdown]
# # An audit from a notebook
#
# Cells begin with `# %%`: VS Code, PyCharm and Spyder run them one by one, `jupytext --to ipynb` makes a notebook.
# Offline and without a key; the portraits are rendered, the failures planted, the judges simulated: what it shows
# are inputs, not findings.

# %%
import polars as pl

import stillme

# %% [markdown]
# ## Run it
# `check` says what would be done and spends nothing. `run` does what is missing; a second time nothing is.

# %%
audit = stillme.Audit.demo("demo", small=True)  # your own: stillme.Audit("audit.yaml")
audit.check()

# %%
run = audit.run()

# %% [markdown]
# ## Look at what came of it
# Every table is a polars frame; `.to_pandas()` makes a pandas one. What is missing is null, never 0.

# %%
run.edits.group_by("editor", "status").len().sort("editor", "status")

# %%
judged = run.scores.filter(pl.col("axis") == "edit_success", pl.col("score").is_not_null())
judged.group_by("editor", "race").agg(
    edits=pl.len(), persons=pl.col("person").n_unique(), mean=pl.col("score").mean()
)

# %% [markdown]
# One edit beside its source: the person whose skin was lightened most, as the instruments read it.

# %%
measured = run.measured
if measured is not None:  # None without the extra `vision`
    lightest = measured.filter(pl.col("editor") == "lightens").sort(
        "lightness_change", descending=True, nulls_last=True
    )
    before, after = run.pair(lightest["trial"][0])

# %% [markdown]
# ## What may be said
# Persons, not edits, are the unit of every interval and test. Sentences say what may be claimed; each table has
# notes that belong to it.

# %%
found = run.analyse()
print("\n".join(found.sentences))

# %%
found.contents

# %%
print(found.notes("primary"))
found["primary"].select("editor", "outcome", "difference", "p_holm")

# %% [markdown]
# ## The report
# The page, and tables, figures, pictures and cards beside it. `only` makes one part of them.

# %%
page = run.report(only=["html"], progress=False)
page
