import { patched, upsertSearchAttributes } from '@temporalio/workflow';

const UNLISTED = 'version-unlisted';
const PolicyVersion = { name: 'PolicyVersion', type: 'DOUBLE' } as const;

/** For histories of earlier releases, which listed the version that a policy serves or a stream has reached. */
export function listVersion(version: number): void {
  if (!patched(UNLISTED)) upsertSearchAttributes([{ key: PolicyVersion, value: version }]);
}
