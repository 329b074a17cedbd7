// The floor: commits of one-row inserts, one after the other and on many sessions. Options: url, commits, atOnce.
import pg from 'pg';
import measured from './measured.cjs';

const { options, nowMs, answer } = measured;
const { url, commits, atOnce } = options;
const sessions = await Promise.all(
  Array.from({ length: atOnce }, async () => {
    const session = new pg.Client({ connectionString: url });
    await session.connect();
    return session;
  }),
);
const [first] = sessions;
await first.query('CREATE TABLE raw (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text NOT NULL)');
const insert = { name: 'insert', text: 'INSERT INTO raw (v) VALUES ($1)', values: ['one row'] };

async function timed(session) {
  const beganMs = nowMs();
  await session.query(insert);
  return nowMs() - beganMs;
}

async function repeat(session, count) {
  const ms = [];
  for (let done = 0; done < count; done += 1) {
    ms.push(await timed(session));
  }
  return ms;
}

await repeat(first, 20);
const commitMs = await repeat(first, commits);
await Promise.all(sessions.map((session) => repeat(session, 5)));
const beganMs = nowMs();
const each = Math.ceil((4 * commits) / atOnce);
await Promise.all(sessions.map((session) => repeat(session, each)));
const perSecond = ((each * atOnce) / (nowMs() - beganMs)) * 1000;
answer({ commitMs, perSecond });
await Promise.all(sessions.map((session) => session.end()));
