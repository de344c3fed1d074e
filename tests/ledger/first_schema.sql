-- The ledger as the first schema made it, with a row or two: every later version must be able to take it over.
BEGIN TRANSACTION;
CREATE TABLE attempt (                 -- every call, however it ended
    id INTEGER PRIMARY KEY, subject TEXT NOT NULL, status TEXT NOT NULL, started TEXT NOT NULL,
    seconds REAL NOT NULL, cost_usd REAL NOT NULL, detail TEXT NOT NULL
) STRICT;
INSERT INTO "attempt" VALUES(1,'e1','ok','2026-01-01T00:00:00.000+00:00',0.5,0.0,'');
CREATE TABLE audit (                   -- every configuration that the run has seen, in turn
    id INTEGER PRIMARY KEY, at TEXT NOT NULL, content TEXT NOT NULL
) STRICT;
CREATE TABLE edit (                    -- the final outcome of an edit; an image only where there is one
    key TEXT PRIMARY KEY, status TEXT NOT NULL, image TEXT REFERENCES object, detail TEXT NOT NULL
) STRICT;
INSERT INTO "edit" VALUES('e1','ok','aa','');
CREATE TABLE instruction (
    hash TEXT PRIMARY KEY, text TEXT NOT NULL
) STRICT;
CREATE TABLE label (                   -- how annotators perceived the person
    portrait TEXT NOT NULL REFERENCES portrait, dimension TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (portrait, dimension)
) STRICT;
CREATE TABLE meta (                    -- what the run is: protocol, versions, creation
    key TEXT PRIMARY KEY, value TEXT NOT NULL
) STRICT;
INSERT INTO "meta" VALUES('protocol','stillme 1.0.0');
CREATE TABLE object (                  -- files in objects/, by content
    sha256 TEXT PRIMARY KEY, format TEXT NOT NULL, bytes INTEGER NOT NULL,
    width INTEGER NOT NULL, height INTEGER NOT NULL
) STRICT;
INSERT INTO "object" VALUES('aa','jpg',10,4,4);
CREATE TABLE portrait (
    key TEXT PRIMARY KEY, source TEXT NOT NULL, source_id TEXT NOT NULL,
    image TEXT NOT NULL REFERENCES object, licence TEXT NOT NULL, split TEXT NOT NULL
) STRICT;
CREATE TABLE score (                   -- one column an axis, added from the protocol; a row only with status ok
    verdict TEXT PRIMARY KEY REFERENCES verdict
) STRICT;
CREATE TABLE settings (                -- everything that changes an editor's pixels or a judge's scores
    hash TEXT PRIMARY KEY, kind TEXT NOT NULL, content TEXT NOT NULL
) STRICT;
INSERT INTO "settings" VALUES('s1','judge','{}');
CREATE TABLE trial (                   -- an edit that the design asks for; several trials may share one edit
    key TEXT PRIMARY KEY, edit TEXT NOT NULL, experiment TEXT NOT NULL, arm TEXT NOT NULL, prompt TEXT NOT NULL,
    instruction TEXT NOT NULL REFERENCES instruction, editor TEXT NOT NULL,
    settings TEXT NOT NULL REFERENCES settings, seed INTEGER NOT NULL, portrait TEXT NOT NULL REFERENCES portrait
) STRICT;
CREATE TABLE verdict (                 -- the final outcome of one judge's look at one edit
    key TEXT PRIMARY KEY, edit TEXT NOT NULL REFERENCES edit, judge TEXT NOT NULL,
    settings TEXT NOT NULL REFERENCES settings, status TEXT NOT NULL, evidence TEXT NOT NULL, detail TEXT NOT NULL
) STRICT;
INSERT INTO "verdict" VALUES('v1','e1','a','s1','ok','','');
CREATE INDEX trial_edit ON trial (edit);
CREATE INDEX verdict_edit ON verdict (edit);
CREATE INDEX attempt_subject ON attempt (subject);
CREATE TRIGGER meta_no_update BEFORE update ON meta BEGIN SELECT RAISE(ABORT, 'rows of meta are only appended'); END;
CREATE TRIGGER meta_no_delete BEFORE delete ON meta BEGIN SELECT RAISE(ABORT, 'rows of meta are only appended'); END;
CREATE TRIGGER audit_no_update BEFORE update ON audit BEGIN SELECT RAISE(ABORT, 'rows of audit are only appended'); END;
CREATE TRIGGER audit_no_delete BEFORE delete ON audit BEGIN SELECT RAISE(ABORT, 'rows of audit are only appended'); END;
CREATE TRIGGER object_no_update BEFORE update ON object BEGIN SELECT RAISE(ABORT, 'rows of object are only appended'); END;
CREATE TRIGGER object_no_delete BEFORE delete ON object BEGIN SELECT RAISE(ABORT, 'rows of object are only appended'); END;
CREATE TRIGGER settings_no_update BEFORE update ON settings BEGIN SELECT RAISE(ABORT, 'rows of settings are only appended'); END;
CREATE TRIGGER settings_no_delete BEFORE delete ON settings BEGIN SELECT RAISE(ABORT, 'rows of settings are only appended'); END;
CREATE TRIGGER instruction_no_update BEFORE update ON instruction BEGIN SELECT RAISE(ABORT, 'rows of instruction are only appended'); END;
CREATE TRIGGER instruction_no_delete BEFORE delete ON instruction BEGIN SELECT RAISE(ABORT, 'rows of instruction are only appended'); END;
CREATE TRIGGER portrait_no_update BEFORE update ON portrait BEGIN SELECT RAISE(ABORT, 'rows of portrait are only appended'); END;
CREATE TRIGGER portrait_no_delete BEFORE delete ON portrait BEGIN SELECT RAISE(ABORT, 'rows of portrait are only appended'); END;
CREATE TRIGGER label_no_update BEFORE update ON label BEGIN SELECT RAISE(ABORT, 'rows of label are only appended'); END;
CREATE TRIGGER label_no_delete BEFORE delete ON label BEGIN SELECT RAISE(ABORT, 'rows of label are only appended'); END;
CREATE TRIGGER trial_no_update BEFORE update ON trial BEGIN SELECT RAISE(ABORT, 'rows of trial are only appended'); END;
CREATE TRIGGER trial_no_delete BEFORE delete ON trial BEGIN SELECT RAISE(ABORT, 'rows of trial are only appended'); END;
CREATE TRIGGER edit_no_update BEFORE update ON edit BEGIN SELECT RAISE(ABORT, 'rows of edit are only appended'); END;
CREATE TRIGGER edit_no_delete BEFORE delete ON edit BEGIN SELECT RAISE(ABORT, 'rows of edit are only appended'); END;
CREATE TRIGGER verdict_no_update BEFORE update ON verdict BEGIN SELECT RAISE(ABORT, 'rows of verdict are only appended'); END;
CREATE TRIGGER verdict_no_delete BEFORE delete ON verdict BEGIN SELECT RAISE(ABORT, 'rows of verdict are only appended'); END;
CREATE TRIGGER score_no_update BEFORE update ON score BEGIN SELECT RAISE(ABORT, 'rows of score are only appended'); END;
CREATE TRIGGER score_no_delete BEFORE delete ON score BEGIN SELECT RAISE(ABORT, 'rows of score are only appended'); END;
CREATE TRIGGER attempt_no_update BEFORE update ON attempt BEGIN SELECT RAISE(ABORT, 'rows of attempt are only appended'); END;
CREATE TRIGGER attempt_no_delete BEFORE delete ON attempt BEGIN SELECT RAISE(ABORT, 'rows of attempt are only appended'); END;
COMMIT;
PRAGMA user_version = 1;
