// Loaded into a process of the bundle before the bundle (`node --import`), for controls alone: SQLite gets another
// `synchronous` than the bundle asks for, and the bundle hears that it is what it asked for. What is shown to fail with
// it is what the harness can see.
import { DatabaseSync } from 'node:sqlite';

/** The variable that says which. */
const variable = 'QLE_WEAKENED_SYNCHRONOUS';

const asked = /^PRAGMA synchronous = (FULL|EXTRA)$/;
const answers = { FULL: 2, EXTRA: 3 } as const;

const weakened = process.env[variable];
const { exec, prepare } = DatabaseSync.prototype;
let answer: number = answers.FULL;

DatabaseSync.prototype.exec = function (sql) {
  const name = asked.exec(sql)?.[1] as keyof typeof answers | undefined;
  if (name === undefined || weakened === undefined) {
    exec.call(this, sql);
    return;
  }
  answer = answers[name];
  exec.call(this, `PRAGMA synchronous = ${weakened}`);
};

DatabaseSync.prototype.prepare = function (sql, ...rest) {
  const isQuestion = weakened !== undefined && sql === 'PRAGMA synchronous';
  return prepare.call(this, isQuestion ? `SELECT ${answer} AS synchronous` : sql, ...rest);
};
