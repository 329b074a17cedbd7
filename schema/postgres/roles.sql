-- The three roles, which are the whole server's and not this database's: none can log in. An operator grants
-- `ql3_runtime` to the login of the runtimes, and `ql3_manager` to whoever installs packages and trusts publishers.
DO $roles$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['ql3_owner', 'ql3_runtime', 'ql3_manager'] LOOP
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = name) THEN
      EXECUTE format('CREATE ROLE %I NOLOGIN', name);
    END IF;
  END LOOP;
  IF NOT pg_has_role(current_user, 'ql3_owner', 'MEMBER') THEN
    GRANT ql3_owner TO CURRENT_USER;
  END IF;
  -- Whoever manages packages also cancels what runs of them.
  IF NOT pg_has_role('ql3_manager', 'ql3_runtime', 'MEMBER') THEN
    GRANT ql3_runtime TO ql3_manager;
  END IF;
END
$roles$;
