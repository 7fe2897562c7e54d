import { createHash } from 'node:crypto';

/** Journals name pictures by hash. Shown ones are facts of the store; those of prompts are in the sample. */

const HASH = 'sha256:';

/** What journals have in place of a picture's bytes. */
export const pictureName = (url: string): string =>
  url.startsWith('data:') ? `${HASH}${createHash('sha256').update(url).digest('hex')}` : url;

/** The hash, if that is what it names. */
export const hashNamed = (name: string): string | null =>
  name.startsWith(HASH) ? name.slice(HASH.length) : null;

/** The series of the fact that is a picture which an environment of the batch has shown. */
export const seriesOf = (
  { batch_id }: { batch_id: string },
  hash: string,
): [string, ...string[]] => [batch_id, 'pictures', hash];
