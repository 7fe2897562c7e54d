import { mostOpenFiles } from '../../platform/process/open-files.js';
import type { CodeSettings } from './settings.js';

/** Pipes of an interpreter, and what its watcher reads. */
const FILES_EACH = 6;
/** The interpreters' share of the files that a process may open. */
const SHARE = 1 / 4;
const FEWEST = 4;

type Sandbox = Pick<CodeSettings, 'max_sandboxes'>;

/** How many interpreters run at once: as many as the settings say, or as the limit of open files has room for. */
export const sandboxesAtOnce = ({ max_sandboxes }: Sandbox, open_files = mostOpenFiles()): number =>
  Math.min(max_sandboxes, Math.max(FEWEST, Math.floor((open_files * SHARE) / FILES_EACH)));

export const filesOfSandboxes = (sandbox: Sandbox, open_files: number): number =>
  sandboxesAtOnce(sandbox, open_files) * FILES_EACH;
