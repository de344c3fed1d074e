"""Which trials an audit asks for: audit.yaml -> Config -> Design. Nothing is edited, judged or measured here.

audit.yaml ──▶ audit.Audit ──▶ config.load: finds the protocol, prepares every backend, checks all ──▶ Config

pipeline ──────┐
calibrate ─────┤                               ┌── load_plan_inputs: what the run has found out so far
forecast ──────┼──▶ design.make_design(config, ┤
compare ───────┘    portraits, run)            └── plan_trials ─┬── diagnose, controls: design
                          ▲                                     ├── mitigate: mitigation.sampling draws the
report, analysis, ──▶ design.load_design(run)                   │   cases, mitigation.sentences words them
review, study                                                   └── stereotype: stereotype.scenes
"""
