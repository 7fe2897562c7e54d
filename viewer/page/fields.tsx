import type { JSX } from 'preact';
import { leavesOf } from './leaves.js';
import { Shown } from './text.js';
import { decimal } from './words.js';

/** Names and values, folded. */
export function Fields({
  title,
  fields,
  isOpen = false,
}: {
  title: string;
  fields: Record<string, unknown>;
  isOpen?: boolean;
}): JSX.Element | null {
  const leaves = leavesOf(fields);
  if (leaves.length === 0) return null;
  return (
    <details open={isOpen}>
      <summary>{title}</summary>
      <dl class="fields">
        {leaves.map(([name, value]) => (
          <div key={name}>
            <dt>
              <Shown text={name} />
            </dt>
            <dd>
              {typeof value === 'number' ? (
                decimal(value)
              ) : (
                <Shown text={typeof value === 'string' ? value : JSON.stringify(value)} />
              )}
            </dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
