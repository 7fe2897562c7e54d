import type { KnownNames } from './dependencies.js';

/** Upstream's text, then what exists, and how to add a built-in one. */
export function unknownTask(task: string, { environments, bare_kinds }: KnownNames): string {
  const there =
    environments.length === 0
      ? 'temporal.yaml has no environments'
      : `expected one of ${environments.join(', ')} (environments of temporal.yaml)`;
  const remedy = bare_kinds.includes(task)
    ? `; add ${task}: { kind: ${task} } to environments of temporal.yaml and start the worker again`
    : '';
  return `No environment found for task type: ${task}; ${there}${remedy}`;
}
