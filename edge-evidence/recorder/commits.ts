// Where in a recording a transaction of the database is complete, told by the form of SQLite's files alone: never by
// what SQLite makes of a disk, since that is what is judged with it.
//
// Rollback journal: with the unlink of the journal, whatever was in it. WAL: with the page behind a frame header that
// says how large the database is from then on. What was rolled back is counted too; it leaves the facts as they were.
import type { Disk } from './disk.ts';
import type { Call } from './recording.ts';

const walHeaderBytes = 32;
const frameHeaderBytes = 24;

/** Asked about each call before it is carried out, in order. */
export type CommitWatch = { readonly completes: (call: Call) => boolean };

/** `database` is its absolute path. */
export function watchCommits(disk: Disk, database: string): CommitWatch {
  let closesTransaction = false;
  const lookAtFrame = ({ value, data }: Call): boolean => {
    if (data.length === frameHeaderBytes && value >= walHeaderBytes) {
      closesTransaction = data.readUInt32BE(4) !== 0;
      return false;
    }
    // A frame that is torn by a fault completes nothing; the header is written anew then.
    return closesTransaction && data.length > walHeaderBytes;
  };
  return {
    completes: (call) => {
      if (call.result < 0) {
        return false;
      }
      if (call.kind === 'unlink') {
        return call.path === `${database}-journal`;
      }
      const isWal = call.kind === 'write' && disk.inodeOf(call.fd) === disk.lookUp(`${database}-wal`);
      return isWal && lookAtFrame(call);
    },
  };
}
