// Shows one plot at a time, for the variable picked in the list or in the table.
(function () {
  function show(id) {
    var plot = document.getElementById(id);
    if (!plot) return;
    var group = plot.getAttribute("data-group");
    document.querySelectorAll('.plot[data-group="' + group + '"]').forEach(function (other) { other.hidden = other !== plot; });
    var list = document.querySelector('select[data-plots="' + group + '"]');
    if (list) list.value = id;
  }
  document.querySelectorAll("select[data-plots]").forEach(function (list) {
    // A browser may remember another choice than the one that is shown.
    show(list.value);
    list.addEventListener("change", function () { show(list.value); });
  });
  document.querySelectorAll("a[data-plot]").forEach(function (link) {
    link.addEventListener("click", function () { show(link.getAttribute("data-plot")); });
  });
  document.querySelectorAll("a[data-open]").forEach(function (link) {
    link.addEventListener("click", function () {
      var file = document.getElementById(link.getAttribute("data-open"));
      if (file) file.open = true;
    });
  });
  if (location.hash.indexOf("#plot-") === 0) show(location.hash.slice(1));
})();
