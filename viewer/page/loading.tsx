import type { ComponentChildren, JSX } from 'preact';
import type { Loaded } from './hooks.js';
import { Shown } from './text.js';

/** What is loaded, or why there is nothing yet. */
export function Loading<T>({
  of,
  what,
  children,
}: {
  of: Loaded<T>;
  what: string;
  children: (value: T) => ComponentChildren;
}): JSX.Element {
  if (of.state === 'loading') return <p class="wait">Loading {what} …</p>;
  if (of.state === 'failed')
    return (
      <p role="alert" class="alert">
        Could not read {what}: <Shown text={of.message} />
      </p>
    );
  return <>{children(of.value)}</>;
}
