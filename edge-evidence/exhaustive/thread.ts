// A thread that kills one operation in one mode at every call, as often as it is told.

import { subjectOf } from '../recorder/subjects.ts';
import { answerTasks } from '../recorder/thread.ts';
import { clearFolder } from '../site-copy.ts';
import type { ExhaustiveTask } from './collect.ts';
import { exhaustSubject } from './exhaust.ts';

answerTasks(async ({ returnsMax, realKills, ...task }: ExhaustiveTask) => {
  try {
    return await exhaustSubject({ subject: subjectOf(task), returnsMax, realKills });
  } finally {
    clearFolder(task.scratch);
  }
});
