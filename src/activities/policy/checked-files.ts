import type { Published } from '../../model/policy/record.js';
import { otherFiles, pathOf } from '../../model/policy/record.js';
import { isOtherOnAnyHost } from '../../model/policy/weight-files.js';
import { refused } from './policy-view.js';
import { lookAt } from './weight-files.js';

/** Before a load, nothing else may have taken the place of what was published; nor while it was loaded. */
export async function checkFiles(
  version: number,
  published: Pick<Published, 'files' | 'weights'>,
): Promise<void> {
  const { files: before } = published;
  const path = pathOf(published);
  if (before === null || path === null) return;
  const { files: now } = await lookAt(path);
  if (now !== null && isOtherOnAnyHost(before, now))
    throw refused(otherFiles(path, { version, before, now }));
}
