-- Compare-and-set on the exact old value; a miss fails on NOT NULL, as in 0082.
INSERT INTO Capabilities (name, version, features)
VALUES (
  'local-control-core',
  (
    SELECT 42 FROM Capabilities
    WHERE name = 'local-control-core' AND version = 41 AND features = '{"plugin_package_workflow_admission":1}'
  ),
  '{"plugin_package_workflow_admission":1,"workflow_task_attempt_admission":1}'
)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, features = excluded.features;
