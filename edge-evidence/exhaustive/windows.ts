// Every window of a recording in which a SIGKILL can fall: before each call, behind the last one, and inside of the
// writes that it can tear. A call is made or is not; a kill waits for it. Only a write of several pages of memory may
// end early: the kernel looks for a fatal signal between two pages, so it is torn at multiples of 4096 bytes of its
// file and nowhere else (generic_perform_write). Smaller pieces are for power cuts.
import { changed, type Disk, type Image, imageOf, liveImage, withoutSharedMemory } from '../recorder/disk.ts';
import type { Call } from '../recorder/recording.ts';

export type Window = {
  /** The calls that were made before the kill. */
  readonly calls: number;
  readonly isTorn: boolean;
  readonly image: Image;
};

const pageBytes = 4096;

/** Applies the calls to the disk while it is read; an image holds until the next window is asked for. */
export function* listWindows(disk: Disk, calls: readonly Call[]): Generator<Window> {
  for (const [index, call] of calls.entries()) {
    yield { calls: index, isTorn: false, image: withoutSharedMemory(liveImage(disk)) };
    for (const image of listTorn(disk, call)) {
      yield { calls: index, isTorn: true, image: withoutSharedMemory(image) };
    }
    disk.apply(call);
  }
  yield { calls: calls.length, isTorn: false, image: withoutSharedMemory(liveImage(disk)) };
}

function* listTorn(disk: Disk, call: Call): Generator<Image> {
  const inode = call.kind === 'write' ? disk.inodeOf(call.fd) : null;
  if (inode === null) {
    return;
  }
  const { value: offset, data, number } = call;
  for (let end = nextPage(offset); end < offset + data.length; end = nextPage(end)) {
    const part = { kind: 'write', number, offset, data: data.subarray(0, end - offset) } as const;
    const content = changed(inode.live, part);
    yield imageOf(disk.root, (seen) => ({ content: seen === inode ? content : seen.live, names: seen.names }));
  }
}

function nextPage(offset: number): number {
  return (Math.floor(offset / pageBytes) + 1) * pageBytes;
}
