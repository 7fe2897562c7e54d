import { closeSync, fdatasync, fstatSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { PROCESS_FILES } from '../../platform/process/open-files.js';

/** A journal's descriptor. It may be closed between two uses, so it is asked for at each. */
export interface Descriptor {
  fd: () => number;
  /** Lines were appended that are not synced. */
  wrote: () => void;
  sync: () => Promise<void>;
  /** It may be called more than once. */
  close: () => void;
}

const MOST_OPEN = 256;

/**
 * How many journals a process keeps open: at most a third of what is left beside the process itself. A rollout that
 * waits for its engine does not write for seconds or minutes; where more play than this, the journals that were unused
 * for longest are closed, and opened again when they are used.
 */
export const mostOpenJournals = (open_files: number): number =>
  Math.min(MOST_OPEN, Math.floor(Math.max(0, open_files - PROCESS_FILES) / 3));

const syncData = promisify(fdatasync);

interface Held {
  fd: number | null;
  /** Opens the same file again. */
  open: () => number;
  isClosed: boolean;
  /** Lines so far, and those that are synced. */
  written: number;
  synced: number;
  /** Syncs in progress: a descriptor in use is not closed. */
  syncing: number;
  /** What failed while nobody asked: the next use throws it. */
  failed: Error | null;
}

interface Options {
  most: number;
  syncFile?: typeof syncData;
}

export function createOpenJournals(options: Options) {
  const { use, sync, shut } = createDescriptors(options);
  /** The descriptor of a file that is open already; `open` opens it again, wherever its name leads then. */
  return (fd: number, { file, open }: { file: string; open: () => number }): Descriptor => {
    const identity = identityOf(fd);
    const again = (): number => {
      const found = open();
      if (identityOf(found) === identity) return found;
      closeSync(found);
      throw new Error(`${path.basename(file)} was replaced by another file`);
    };
    const held: Held = {
      fd,
      open: again,
      isClosed: false,
      written: 0,
      synced: 0,
      syncing: 0,
      failed: null,
    };
    use(held);
    return {
      fd: () => use(held),
      wrote: () => {
        held.written += 1;
      },
      sync: () => {
        use(held);
        return sync(held);
      },
      close: () => {
        held.isClosed = true;
        shut(held);
      },
    };
  };
}

function createDescriptors({ most, syncFile = syncData }: Options) {
  /** Those with a descriptor, the longest unused first. */
  const used = new Set<Held>();

  const shut = (held: Held): void => {
    used.delete(held);
    if (held.fd !== null) closeSync(held.fd);
    held.fd = null;
  };
  const sync = async (held: Held): Promise<void> => {
    const { written } = held;
    held.syncing += 1;
    try {
      await syncFile(descriptorOf(held));
      held.synced = Math.max(held.synced, written);
    } finally {
      held.syncing -= 1;
    }
  };
  /** A disk's error is told only to a descriptor that is open, so nothing is closed before it is synced. */
  const rest = async (held: Held): Promise<void> => {
    try {
      if (held.synced < held.written) await sync(held);
      // Meanwhile it may have been used, or closed.
      if (used.has(held)) makeRoom(null);
      else if (held.syncing === 0) shut(held);
    } catch (error) {
      if (!held.isClosed) held.failed = error as Error;
    }
  };
  const makeRoom = (inUse: Held | null): void => {
    for (const held of used) {
      if (used.size <= most || held === inUse) return;
      if (held.syncing > 0) continue;
      used.delete(held);
      void rest(held);
    }
  };
  const use = (held: Held): number => {
    const descriptor = descriptorOf(held);
    used.delete(held);
    used.add(held);
    makeRoom(held);
    return descriptor;
  };
  return { use, sync, shut };
}

function descriptorOf(held: Held): number {
  // The number of a closed file is soon reused.
  if (held.isClosed) throw new Error('the journal is closed');
  if (held.failed !== null) throw held.failed;
  held.fd ??= held.open();
  return held.fd;
}

function identityOf(fd: number): string {
  const { dev, ino } = fstatSync(fd);
  return `${dev} ${ino}`;
}
