-- Compare-and-set on the exact old value. On a miss, a missing row included, the inner SELECT finds nothing, the
-- version would be NULL, and the NOT NULL constraint fails the migration.
INSERT INTO Capabilities (name, version, features)
VALUES (
  'local-control-core',
  (SELECT 41 FROM Capabilities WHERE name = 'local-control-core' AND version = 40 AND features = '{}'),
  '{"plugin_package_workflow_admission":1}'
)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, features = excluded.features;
