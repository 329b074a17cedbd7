// Who a command runs as: one user of this machine with its groups, from /etc/passwd and /etc/group. Users that only a
// directory service knows are not found; their numbers can be given.
import { readFileSync } from 'node:fs';
import { nullUnlessShort } from './shortage.ts';

export type UserIdentity = {
  /** Null for a number that /etc/passwd does not have. */
  readonly name: string | null;
  readonly uid: number;
  readonly gid: number;
  /** Of all its groups, the first one included; rising. */
  readonly groupIds: readonly number[];
  readonly home: string;
};

/** The texts of /etc/passwd and /etc/group. */
export type UserFiles = { readonly passwd: string; readonly group: string };

// The group of a number without an entry. Its own number as a group might be one with rights, such as `sudo`.
const nobodyGroup = 65_534;

/** What is not there is empty; throws where this process is short of descriptors. */
export function readUserFiles(): UserFiles {
  return { passwd: readText('/etc/passwd'), group: readText('/etc/group') };
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    return nullUnlessShort(error) ?? '';
  }
}

/** The user of that name, or of that number where no name is written so; null where there is none. */
export function findUser(user: string, { passwd, group }: UserFiles): UserIdentity | null {
  const rows = readRows(passwd, 7);
  const row = rows.find(([name]) => name === user) ?? rows.find(([, , uid]) => uid === user);
  if (row === undefined) {
    const isNumber = /^[0-9]{1,10}$/.test(user);
    return isNumber ? { name: null, uid: Number(user), gid: nobodyGroup, groupIds: [nobodyGroup], home: '/' } : null;
  }
  const [name = '', , uid, gid, , home = ''] = row;
  const others = readRows(group, 4).filter(([, , , members = '']) => members.split(',').includes(name));
  const groupIds = new Set([Number(gid), ...others.map(([, , id]) => Number(id))]);
  return {
    name,
    uid: Number(uid),
    gid: Number(gid),
    groupIds: [...groupIds].sort((one, other) => one - other),
    home: home === '' ? '/' : home,
  };
}

/** Rows of so many fields whose third and, of users, fourth one are numbers. */
function readRows(text: string, fieldsCount: 4 | 7): string[][] {
  const isNumber = (field: string | undefined) => field !== undefined && /^[0-9]{1,10}$/.test(field);
  return text
    .split('\n')
    .map((line) => line.split(':'))
    .filter((row) => row.length === fieldsCount && isNumber(row[2]) && (fieldsCount === 4 || isNumber(row[3])));
}

/** What a login sets of it, for a command that does not set it itself. */
export function environmentOfUser({ name, uid, home }: UserIdentity): Readonly<Record<string, string>> {
  const shown = name ?? `${uid}`;
  return { HOME: home, USER: shown, LOGNAME: shown };
}
