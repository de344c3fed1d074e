"""From a data set to chosen portraits, told once:

    readers ──▶ rows ──▶ pools ──▶ candidates ──▶ pre-screen ──▶ a person chooses ──▶ portraits/

One SQLite file beside images named by hash keeps the candidates, what was measured of them and every action of
every reviewer; rows are only appended. `stillme run` takes the exported folder as its source.
"""
