// For the check of `lib/native.js`: the addon has no types.
declare module '*.node';
