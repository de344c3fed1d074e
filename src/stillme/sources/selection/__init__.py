"""From a data set to chosen portraits:

    readers ──▶ rows ──▶ pools ──▶ candidates ──▶ pre-screen ──▶ a person chooses ──▶ portraits/

One SQLite file next to images named by hash keeps the candidates, their measurements and every action of every
reviewer; rows are only appended. `stillme run` takes the exported folder as its source.
"""
