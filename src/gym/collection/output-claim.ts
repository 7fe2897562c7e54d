import { createHash, randomUUID } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { identify, isAlive } from '../../local/process-identity.js';

/** One process at a time writes a collection's files. */
const ClaimFile = z.object({
  pid: z.int(),
  command: z.string(),
  started: z.string().nullable().default(null),
  host: z.string(),
  /** No two claims are alike. */
  token: z.string().default(''),
});
type ClaimFile = z.infer<typeof ClaimFile>;

const ROUNDS = 50;
const AGAIN_MS = 20;

/**
 * Claims an output file for this process, by a file beside it; returns what gives it back. Throws where a living
 * process has it, or one of another host, of which nothing is known.
 */
export async function claimOutput({
  output,
  claim_file,
}: {
  output: string;
  claim_file: string;
}): Promise<() => Promise<void>> {
  const token = randomUUID();
  const mine: ClaimFile = { ...(await identify(process.pid)), host: hostname(), token };
  const text = JSON.stringify(mine);
  // Written whole under a name of its own first: nobody reads half a claim.
  const draft = `${claim_file}.${token.slice(0, 8)}`;
  await writeFile(draft, text);
  try {
    const other = await acquire(claim_file, draft);
    if (other !== null) throw taken(other, { output, claim_file });
  } finally {
    await rm(draft, { force: true });
  }
  return async () => {
    if ((await readClaim(claim_file)) === text) await rm(claim_file, { force: true });
  };
}

/** Links the draft to the claim's name, once nobody alive has that; returns who has it, null: this process. */
async function acquire(claimFile: string, draft: string): Promise<string | null> {
  let holder = '';
  for (let round = 0; round < ROUNDS; round++) {
    if (await isLinked(draft, claimFile)) return null;
    const text = await readClaim(claimFile);
    if (text === null) continue;
    holder = text;
    if (!(await isStale(text))) return text;
    await removeStale(claimFile, { text, draft });
  }
  return holder;
}

/**
 * Of several processes that find a claim stale, the one that claims its removal may remove it, and looks again before:
 * whoever comes late finds another claim, and leaves it. A remover that dies leaves a stale claim like any other.
 */
async function removeStale(
  claimFile: string,
  { text, draft }: { text: string; draft: string },
): Promise<void> {
  const digest = createHash('sha256').update(text).digest('hex');
  const removal = `${claimFile}.${digest.slice(0, 12)}.stale`;
  if ((await acquire(removal, draft)) !== null) {
    await sleep(AGAIN_MS);
    return;
  }
  try {
    if ((await readClaim(claimFile)) === text) await rm(claimFile, { force: true });
  } finally {
    await rm(removal, { force: true });
  }
}

/** null: there is none. */
const readClaim = (file: string): Promise<string | null> =>
  readFile(file, 'utf8').catch(() => null);

async function isLinked(draft: string, claimFile: string): Promise<boolean> {
  try {
    await link(draft, claimFile);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

function parse(text: string): ClaimFile | null {
  try {
    return ClaimFile.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

async function isStale(text: string): Promise<boolean> {
  const claim = parse(text);
  return claim === null || (claim.host === hostname() && !(await isAlive(claim)));
}

function taken(
  text: string,
  { output, claim_file }: { output: string; claim_file: string },
): Error {
  const claim = parse(text);
  const who =
    claim === null
      ? 'another process'
      : `process ${claim.pid}${claim.host === hostname() ? '' : ` of host ${claim.host}`}`;
  return new Error(
    `${who} is collecting into ${output}: two would write each result twice. Wait for it or end it` +
      (claim?.host === hostname()
        ? '.'
        : `; if it is gone for good, remove ${path.relative('', claim_file)}.`),
  );
}
