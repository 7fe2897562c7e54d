import type { PolicyRecord, Published } from '../../model/policy/record.js';
import { otherFiles, pathOf } from '../../model/policy/record.js';
import { repairOf } from '../../model/policy/sleepers.js';
import { isOther } from '../../model/policy/weight-files.js';
import { Attach } from '../../model/policy/transfer.js';
import type { PolicyActivities } from '../contract/policy.js';
import type { Dependencies } from '../dependencies.js';
import { viewOf } from '../../model/policy/view.js';
import { inputOf, policyOf, refused } from './policy-view.js';
import { lookAt } from './weight-files.js';

/** Records where files of a version are whose weights a trainer has sent: replicas without them are loaded from there. */
export function createAttachCheckpoint(
  dependencies: Dependencies,
): PolicyActivities['attachCheckpoint'] {
  return ({ service, attach: input }) =>
    dependencies.attempt(async () => {
      const { records } = policyOf(service, dependencies);
      const attach = inputOf('attach', { schema: Attach, input });
      const { files } = await lookAt(attach.checkpoint);
      const record = await records.change((now) => attached(now, { ...attach, files }));
      return { repair: repairOf(record, attach), view: viewOf(record) };
    });
}

function attached(
  record: PolicyRecord | null,
  { version, checkpoint, files }: Attach & Pick<Published, 'files'>,
): PolicyRecord | null {
  const known = record?.weights[version];
  if (record === null || known === undefined) {
    const numbers = [...new Set([record?.version, record?.target])];
    const expected = numbers.filter((one) => typeof one === 'number').join(' or ');
    throw refused(`version: expected ${expected || 'one that was begun'}, got ${version}`);
  }
  const path = pathOf(known);
  if (path !== null && path !== checkpoint)
    throw refused(
      `checkpoint: version ${version} has ${JSON.stringify(path)}, got ${JSON.stringify(checkpoint)}`,
    );
  const { files: before } = known;
  if (path !== null && before !== null && files !== null && isOther(before, files))
    throw refused(`checkpoint: ${otherFiles(checkpoint, { version, before, now: files })}`);
  const weights = { kind: 'checkpoint' as const, path: checkpoint };
  return { ...record, weights: { ...record.weights, [version]: { ...known, weights, files } } };
}
