// A thread that cuts the power of one operation in one mode, as often as it is told.
import { subjectOf } from '../recorder/subjects.ts';
import { answerTasks } from '../recorder/thread.ts';
import { clearFolder } from '../site-copy.ts';
import type { PowerLossTask } from './collect.ts';
import { losePower } from './lose-power.ts';

answerTasks(async ({ control, ripe, between, returns, ...task }: PowerLossTask) => {
  try {
    return await losePower({ subject: subjectOf(task), seed: task.seed, control, ripe, between, returns });
  } finally {
    clearFolder(task.scratch);
  }
});
