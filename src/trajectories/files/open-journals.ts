import { closeSync, fdatasync, fstatSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { PROCESS_FILES } from '../../platform/process/open-files.js';

/** A journal's descriptor. */
export type Descriptor = ReturnType<ReturnType<typeof createOpenJournals>>;

const MOST_OPEN = 256;

/**
 * How many journals a process keeps open: at most a third of what is left beside the process itself. A rollout that
 * waits for its engine does not write for seconds or minutes; where more play than this, the journals that were unused
 * for longest are closed, and opened again when they are used.
 */
export const mostOpenJournals = (open_files: number): number =>
  Math.min(MOST_OPEN, Math.floor(Math.max(0, open_files - PROCESS_FILES) / 3));

const syncData = promisify(fdatasync);

interface OpenFile {
  fd: number | null;
  /** Opens the same file again. */
  open: () => number;
  isClosed: boolean;
  /** Lines so far, and those that are synced. */
  written: number;
  synced: number;
  /** Syncs in progress: a descriptor in use is not closed. */
  syncing: number;
  /** An error that no caller waited for: the next use throws it. */
  failed: Error | null;
}

interface Options {
  most: number;
  syncFile?: typeof syncData;
}

export function createOpenJournals(options: Options) {
  const { use, sync, shut } = createDescriptors(options);
  /** The descriptor of a file that is open already; `open` opens it again, wherever its name leads then. */
  return (fd: number, { file, open }: { file: string; open: () => number }) => {
    const identity = identityOf(fd);
    const again = (): number => {
      const found = open();
      if (identityOf(found) === identity) return found;
      closeSync(found);
      throw new Error(`${path.basename(file)} was replaced by another file`);
    };
    const opened: OpenFile = {
      fd,
      open: again,
      isClosed: false,
      written: 0,
      synced: 0,
      syncing: 0,
      failed: null,
    };
    use(opened);
    return {
      /** It may be closed between two uses, so it is asked for at each. */
      fd: () => use(opened),
      /** Lines were appended that are not synced. */
      wrote: (): void => {
        opened.written += 1;
      },
      sync: (): Promise<void> => {
        use(opened);
        return sync(opened);
      },
      /** It may be called more than once. */
      close: (): void => {
        opened.isClosed = true;
        shut(opened);
      },
    };
  };
}

function createDescriptors({ most, syncFile = syncData }: Options) {
  /** Journals with a descriptor, the longest unused first. */
  const used = new Set<OpenFile>();

  const shut = (opened: OpenFile): void => {
    used.delete(opened);
    if (opened.fd !== null) closeSync(opened.fd);
    opened.fd = null;
  };
  const sync = async (opened: OpenFile): Promise<void> => {
    const { written } = opened;
    opened.syncing += 1;
    try {
      await syncFile(descriptorOf(opened));
      opened.synced = Math.max(opened.synced, written);
    } finally {
      opened.syncing -= 1;
    }
  };
  /** A disk's error is told only to a descriptor that is open, so nothing is closed before it is synced. */
  const rest = async (opened: OpenFile): Promise<void> => {
    try {
      if (opened.synced < opened.written) await sync(opened);
      // Meanwhile it may have been used, or closed.
      if (used.has(opened)) makeRoom(null);
      else if (opened.syncing === 0) shut(opened);
    } catch (error) {
      if (!opened.isClosed) opened.failed = error as Error;
    }
  };
  const makeRoom = (inUse: OpenFile | null): void => {
    for (const opened of used) {
      if (used.size <= most || opened === inUse) return;
      if (opened.syncing > 0) continue;
      used.delete(opened);
      void rest(opened);
    }
  };
  const use = (opened: OpenFile): number => {
    const descriptor = descriptorOf(opened);
    used.delete(opened);
    used.add(opened);
    makeRoom(opened);
    return descriptor;
  };
  return { use, sync, shut };
}

function descriptorOf(opened: OpenFile): number {
  // The number of a closed file is soon reused.
  if (opened.isClosed) throw new Error('the journal is closed');
  if (opened.failed !== null) throw opened.failed;
  opened.fd ??= opened.open();
  return opened.fd;
}

function identityOf(fd: number): string {
  const { dev, ino } = fstatSync(fd);
  return `${dev} ${ino}`;
}
