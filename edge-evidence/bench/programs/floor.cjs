// The floor of a process: bare Node with the modules that the product cannot do without, and the same database open.
// Says that it is ready, and idles.
require('node:crypto');
require('node:child_process');
const { DatabaseSync } = require('node:sqlite');

const db = new DatabaseSync(process.argv[2]);
db.prepare('SELECT count(*) FROM sqlite_schema').get();
process.stdout.write('ready\n');
setInterval(() => {}, 2 ** 31 - 1);
