import { createHash, randomUUID } from 'node:crypto';
import { link, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { jsonIn } from './json/object.js';
import type { ProcessIdentity } from './process/identity.js';
import { areNeighbours, identify, isAlive, runOf } from './process/identity.js';
import { readWhole } from './regular-file.js';
import { isThere } from './files.js';

const textOrNull = z.string().nullable().catch(null);

/** The process that has a claim, as the claim's file names it. */
const Claimant = z.object({
  pid: z.number(),
  command: z.string(),
  started: textOrNull,
  host: z.string(),
  /** Of its process, as `runOf` says it. */
  run: textOrNull,
  /** Makes each claim's text unique. */
  token: z.string().catch(''),
}) satisfies z.ZodType<ProcessIdentity>;
export type Claimant = z.infer<typeof Claimant>;

export type Claim =
  | { release: () => Promise<void> }
  /** The file belongs to a living process, or to a process of another host, which cannot be checked from here. */
  | { release: null; claimant: Claimant };

/** `process 12`, with the host if it is another one. */
export const describeClaimant = ({ pid, host }: Claimant): string =>
  `process ${pid}${host === hostname() ? '' : ` of host ${host}`}`;

/** Who has claimed `file`; null: nobody, or a process of this host that has ended. */
export async function claimantOf(file: string): Promise<Claimant | null> {
  const text = await readClaim(file);
  return text === null || (await isStale(text)) ? null : parse(text);
}

/** Whether the process that has claimed `file` has ended; false where there is no claim, or nobody can tell. */
export async function isAbandoned(file: string): Promise<boolean> {
  const text = await readClaim(file);
  return text !== null && parse(text) !== null && (await isStale(text));
}

const ROUNDS = 50;
const AGAIN_MS = 20;

/**
 * Claims `file` for this process: at most one living process of this host has it. A dead claimant's claim is taken over
 * by one of those that try. On a shared file system another host's stays until someone removes it.
 */
export async function claimFile(file: string): Promise<Claim> {
  const token = randomUUID();
  const own = await identify(process.pid);
  const mine: Claimant = { ...own, host: hostname(), run: await runOf(own), token };
  const text = JSON.stringify(mine);
  // The claim gets its final name only after it is written, so no reader sees half of it.
  const draft = `${file}.${token.slice(0, 8)}`;
  await writeFile(draft, text, { mode: 0o600 });
  try {
    const other = await acquire(file, draft);
    if (other !== null) return { release: null, claimant: parse(other) ?? UNREADABLE };
  } finally {
    await rm(draft, { force: true });
  }
  return {
    release: async () => {
      if ((await readClaim(file)) === text) await rm(file, { force: true });
    },
  };
}

/** Links the draft once no living process has the claim. Returns the claimant's text; null: it is this process. */
async function acquire(file: string, draft: string): Promise<string | null> {
  let last = '';
  for (let round = 0; round < ROUNDS; round++) {
    if (await isLinked(draft, file)) return null;
    const text = await readClaim(file);
    if (text === null) continue;
    last = text;
    if (!(await isStale(text))) return text;
    await removeStale(file, { text, draft });
  }
  return last;
}

/**
 * Reading a stale claim and removing it are two steps, and a new claim may come between them. So the removal itself is
 * claimed, under a name that belongs to the stale text, and the remover reads again before it removes. A dead remover
 * leaves a stale claim like any other.
 */
async function removeStale(
  file: string,
  { text, draft }: { text: string; draft: string },
): Promise<void> {
  const digest = createHash('sha256').update(text).digest('hex');
  const removal = `${file}.${digest.slice(0, 12)}.stale`;
  if ((await acquire(removal, draft)) !== null) {
    await sleep(AGAIN_MS);
    return;
  }
  try {
    if ((await readClaim(file)) === text) await rm(file, { force: true });
  } finally {
    await rm(removal, { force: true });
  }
}

/** null: there is no claim. */
const readClaim = (file: string): Promise<string | null> =>
  readWhole(file).then(String, () => null);

async function isLinked(draft: string, file: string): Promise<boolean> {
  try {
    await link(draft, file);
    return true;
  } catch (error) {
    if (isThere(error)) return false;
    throw error;
  }
}

const UNREADABLE: Claimant = {
  ...{ pid: 0, command: '', started: null, host: hostname(), run: null, token: '' },
};

const parse = (text: string): Claimant | null => Claimant.safeParse(jsonIn(text)).data ?? null;

async function isStale(text: string): Promise<boolean> {
  const claimant = parse(text);
  if (claimant === null) return true;
  if (claimant.host !== hostname() || (await isAlive(claimant))) return false;
  // A container of this host may see none of another one's processes.
  const own = await runOf(await identify(process.pid));
  return claimant.run === null || own === null || areNeighbours(claimant.run, own);
}
