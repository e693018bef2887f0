/** The scope of the packages of platforms. */
export const SCOPE: "@windrow-rs";
export const TARGETS: string[];
/** The name of this platform. */
export function target(): string;
