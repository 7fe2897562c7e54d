/** An engine belongs to one service, once: its weights have one record. URLs have one form by now. */

const placeOf = (url: string): string =>
  url.replace(/^(?<scheme>https?:\/\/)localhost(?=[:/])/, '$<scheme>127.0.0.1');

/** Addresses that a list names again: an update would pause, load and resume that engine twice at once. */
export const repeatedIn = (urls: readonly string[], path: readonly string[]) =>
  urls.flatMap((url, k) => {
    const first = urls.map(placeOf).indexOf(placeOf(url));
    const message = `expected each engine once, got ${url} again, which is at ${first}, too`;
    return first < k ? [{ path: [...path, k], message }] : [];
  });

export function sharedEngines(
  services: Record<string, { base_urls: string[] }>,
): { path: (string | number)[]; message: string }[] {
  const owners = new Map<string, string>();
  const problemAt = ({ service, url, i }: { service: string; url: string; i: number }) => {
    const owner = owners.get(placeOf(url)) ?? service;
    owners.set(placeOf(url), owner);
    if (owner === service) return [];
    const message = `expected an engine that no other service has, got ${url} of generation.${owner}; one service may serve several models: name them in requests (generation.model)`;
    return [{ path: ['generation', service, 'base_urls', i], message }];
  };
  return Object.entries(services).flatMap(([service, { base_urls }]) =>
    base_urls.flatMap((url, i) => problemAt({ service, url, i })),
  );
}
